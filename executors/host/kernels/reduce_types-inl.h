// How elements of each type become vectors of accumulators and back. Included once per Highway target.
//
// A type has, for the tag D of its accumulator lanes:
//   Element, Lane            in memory; in the accumulator
//   kRatio                   accumulator vectors that one full vector of elements needs
//   Load(d, from)            Lanes(d) elements
//   Pack(d, v)               ... as elements: a vector of Rebind<Element, D>, rounded and canonical
//   LoadWide(d, from, v)     one full vector of elements into v[0 .. kRatio-1], lanes in any order
//   PackWide(d, v)           ... and back, in LoadWide's order
//   FromScalar(scalar)       one lane
//   Rounded(d, v)            v as if stored in an element and loaded again
#if defined(TUTTI_HOST_REDUCE_TYPES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_HOST_REDUCE_TYPES_INL
#undef TUTTI_HOST_REDUCE_TYPES_INL
#else
#define TUTTI_HOST_REDUCE_TYPES_INL
#endif

#include <cstring>
#include <type_traits>

#include "executors/host/kernels/lowp-inl.h"
#include "executors/host/kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::host_kernels {
namespace HWY_NAMESPACE {

// Elements that are their own accumulators. Integers are unsigned; operators that depend on the sign reinterpret.
template <typename T>
struct Native {
  using Element = T;
  using Lane = T;
  static constexpr std::size_t kRatio = 1;

  template <class D>
  static HWY_INLINE hn::VFromD<D> Load(D d, const T* from) {
    return hn::LoadU(d, from);
  }
  template <class D>
  static HWY_INLINE hn::VFromD<D> Pack(D d, hn::VFromD<D> v) {
    if constexpr (std::is_floating_point_v<T>) {
      return CanonicalNan(d, v);
    } else {
      return v;
    }
  }
  template <class D>
  static HWY_INLINE void LoadWide(D d, const T* from, hn::VFromD<D>* v) {
    v[0] = hn::LoadU(d, from);
  }
  template <class D>
  static HWY_INLINE hn::VFromD<D> PackWide(D d, const hn::VFromD<D>* v) {
    return Pack(d, v[0]);
  }
  template <class D>
  static HWY_INLINE hn::VFromD<D> Rounded(D /*tag*/, hn::VFromD<D> v) {
    return v;
  }
  static T FromScalar(const Scalar& scalar) {
    T value;
    std::memcpy(&value, scalar.bytes.data(), sizeof(T));
    return value;
  }
};

// Whether the target converts fp16 in hardware, with rounding to nearest even and subnormals.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || (HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64)
inline constexpr bool kHardwareFloat16 = true;
#else
inline constexpr bool kHardwareFloat16 = false;
#endif

// 8- and 16-bit floats, accumulated in fp32.
template <typename Format>
struct Small {
  using Element = typename Format::Storage;
  using Lane = float;
  static constexpr std::size_t kRatio = sizeof(Lane) / sizeof(Element);
  static constexpr bool kHardware = kHardwareFloat16 && std::is_same_v<Format, Float16>;

  template <class D>
  static HWY_INLINE hn::VFromD<D> Load(D d, const Element* from) {
    return Unpack(d, hn::LoadU(hn::Rebind<Element, D>(), from));
  }
  template <class D>
  static HWY_INLINE hn::VFromD<D> Unpack(D d, hn::VFromD<hn::Rebind<Element, D>> elements) {
    if constexpr (kHardware) {
      return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), elements));
    } else {
      return Decode<Format>(d, hn::PromoteTo(CodeTag<D>(), elements));
    }
  }
  template <class D>
  static HWY_INLINE hn::VFromD<D> Rounded(D d, hn::VFromD<D> v) {
    return Unpack(d, Pack(d, v));
  }
  template <class D>
  static HWY_INLINE hn::VFromD<hn::Rebind<Element, D>> Pack(D d, hn::VFromD<D> v) {
    const hn::Rebind<Element, D> de;
    if constexpr (kHardware) {
      // All ones below the sign: the conversion keeps a NaN's upper payload, and so makes the canonical one.
      const auto nan = hn::BitCast(d, hn::Set(CodeTag<D>(), kFloatMagnitude));
      const auto canonical = hn::IfThenElse(hn::Eq(v, v), v, nan);
      return hn::BitCast(de, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), canonical));
    } else {
      return hn::DemoteTo(de, Encode<Format>(d, v));
    }
  }

#if HWY_TARGET != HWY_SCALAR  // with one lane there is no wider vector
  template <class D>
  static HWY_INLINE void LoadWide(D d, const Element* from, hn::VFromD<D>* v) {
    if constexpr (std::is_same_v<Format, Bfloat16>) {
      // Even and odd elements: a shift and a mask instead of moves across lanes.
      const CodeTag<D> di;
      const auto pairs = hn::BitCast(di, hn::LoadU(hn::Repartition<Element, D>(), from));
      v[0] = hn::BitCast(d, hn::ShiftLeft<16>(pairs));
      v[1] = hn::BitCast(d, hn::And(pairs, hn::Set(di, static_cast<std::int32_t>(0xffff'0000u))));
    } else if constexpr (kHardwareFloat16 && kRatio == 4) {
      for (std::size_t k = 0; k < kRatio; k += 2) LoadTwoByFloat16(d, from + k * hn::Lanes(d), v + k);
    } else {
      for (std::size_t k = 0; k < kRatio; ++k) v[k] = Load(d, from + k * hn::Lanes(d));
    }
  }
  template <class D>
  static HWY_INLINE hn::VFromD<hn::Repartition<Element, D>> PackWide(D d, const hn::VFromD<D>* v) {
    const hn::Repartition<Element, D> de;
    if constexpr (std::is_same_v<Format, Bfloat16>) {
      return hn::OddEven(hn::BitCast(de, RoundToUpperHalf(d, v[1])), hn::BitCast(de, Encode<Format>(d, v[0])));
    } else if constexpr (kRatio == 2) {
      return hn::Combine(de, Pack(d, v[1]), Pack(d, v[0]));
    } else {
      const hn::Half<decltype(de)> half;
      const auto low = hn::Combine(half, Pack(d, v[1]), Pack(d, v[0]));
      return hn::Combine(de, hn::Combine(half, Pack(d, v[3]), Pack(d, v[2])), low);
    }
  }

 private:
  // An 8-bit float's fields, shifted into those of a float16, are the same number except for the biases' difference;
  // subnormals too. This converts twice as many lanes as going through fp32's fields.
  template <class D>
  static HWY_INLINE void LoadTwoByFloat16(D d, const Element* from, hn::VFromD<D>* v) {
    const hn::Repartition<std::uint16_t, D> du;
    const hn::Half<decltype(du)> half;
    const hn::Rebind<hwy::float16_t, D> df16;
    constexpr int kShift = Float16::kMantissaBits - Format::kMantissaBits;
    constexpr float kScale = 1 << (Float16::kBias - Format::kBias);
    const auto codes = hn::PromoteTo(du, hn::LoadU(hn::Rebind<Element, decltype(du)>(), from));
    auto bits = hn::ShiftLeft<kShift>(codes);
    if constexpr (!Format::kHasInfinity) {
      const auto magnitude = hn::And(codes, hn::Set(du, Conversion<Format>::kMagnitude));
      const auto sign = hn::ShiftLeft<8>(hn::Xor(codes, magnitude));
      const auto is_nan = hn::Eq(magnitude, hn::Set(du, Format::kNan));
      const auto nan = hn::And(hn::VecFromMask(du, is_nan), hn::Set(du, Float16::kNan));
      bits = hn::Or(hn::Or(hn::ShiftLeft<kShift>(magnitude), nan), sign);
    }
    v[0] = hn::PromoteTo(d, hn::BitCast(df16, hn::LowerHalf(half, bits)));
    v[1] = hn::PromoteTo(d, hn::BitCast(df16, hn::UpperHalf(half, bits)));
    if constexpr (kScale != 1) {
      v[0] = hn::Mul(v[0], hn::Set(d, kScale));
      v[1] = hn::Mul(v[1], hn::Set(d, kScale));
    }
  }

 public:
#endif

  static float FromScalar(const Scalar& scalar) { return ToFloat<Format>(Native<Element>::FromScalar(scalar)); }
};

}  // namespace HWY_NAMESPACE
}  // namespace tutti::host_kernels
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_HOST_REDUCE_TYPES_INL
