// Element arithmetic of device code, with the same bits as the host's kernels (executors/host/kernels/reduce.h defines
// them). Conversions use the GPU's instructions where it has them and base/numbers/lowp.h elsewhere.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/numbers/datatype.h"
#include "executors/cuda/kernels/device.h"
#include "tutti/tutti.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif

namespace tutti::cuda_kernels {

// An element's type in memory, and the type it is accumulated in.
template <typename T>
struct Plain {
  using Memory = T;
  using Accumulator = T;
  TUTTI_DEVICE static T Decode(T x) { return x; }
  TUTTI_DEVICE static T Encode(T x) {
    // A GPU's arithmetic produces another NaN than the host's.
    if constexpr (std::is_same_v<T, float>) return x == x ? x : std::bit_cast<float>(kFloatNan);
    if constexpr (std::is_same_v<T, double>) return x == x ? x : std::bit_cast<double>(0x7ff8'0000'0000'0000ULL);
    return x;
  }
};

TUTTI_DEVICE float DecodeHalf(std::uint16_t code) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(code));
#else
  return ToFloat<Float16>(code);
#endif
}

// Decodes fp8 by way of a half, on GPUs without an fp8 instruction. An E5M2 code is a half's upper byte. E4M3's
// exponent has one bit less and a bias less by 8, so that its code, aligned with a half's fields, means 2^8 times less.
template <typename Format>
TUTTI_DEVICE float DecodeByHalf(std::uint8_t code) {
  if constexpr (std::is_same_v<Format, Float8E5M2>) {
    return DecodeHalf(static_cast<std::uint16_t>(code << 8));
  } else {
    // NaN is all ones: adding one carries into the bit that makes the half's exponent all ones.
    constexpr std::uint32_t kMagnitude = 0x7f, kSign = 0x80;
    const std::uint32_t magnitude = code & kMagnitude;
    const std::uint32_t nan = (magnitude + 1) & kSign;
    return DecodeHalf(static_cast<std::uint16_t>((code & kSign) << 8 | (magnitude | nan) << 7)) * 0x1p8F;
  }
}

template <typename Format>
struct Low {
  using Memory = typename Format::Storage;
  using Accumulator = float;
  TUTTI_DEVICE static float Decode(Memory code) {
#if defined(__CUDA_ARCH__)
    if constexpr (std::is_same_v<Format, Float16>) return DecodeHalf(code);
    constexpr bool kIsFloat8 = std::is_same_v<Format, Float8E4M3> || std::is_same_v<Format, Float8E5M2>;
#if __CUDA_ARCH__ < 890
    if constexpr (kIsFloat8) return DecodeByHalf<Format>(code);
#else
    constexpr auto kKind = std::is_same_v<Format, Float8E4M3> ? __NV_E4M3 : __NV_E5M2;
    if constexpr (kIsFloat8) return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, kKind)));
#endif
#endif
    return ToFloat<Format>(code);
  }
  TUTTI_DEVICE static Memory Encode(float value) {
#if defined(__CUDA_ARCH__)
    if constexpr (std::is_same_v<Format, Float16>) return __half_as_ushort(__float2half_rn(value));
    if constexpr (std::is_same_v<Format, Bfloat16>) return __bfloat16_as_ushort(__float2bfloat16_rn(value));
    if constexpr (std::is_same_v<Format, Float8E4M3>) return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
    if constexpr (std::is_same_v<Format, Float8E5M2>) return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E5M2);
#endif
    return FromFloat<Format>(value);
  }
};

// Calls visit with the type's codec.
template <typename Visit>
TUTTI_DEVICE auto VisitCodec(tuttiDataType_t type, Visit visit) {
  return VisitDataType(type, [&]<typename Element>(std::type_identity<Element>) {
    if constexpr (kIsFormat<Element>) {
      return visit(Low<Element>());
    } else {
      return visit(Plain<Element>());
    }
  });
}

// Signed and unsigned integers have the same sums and products, so one instantiation serves both.
template <typename Codec>
struct SignlessOf {
  using Type = Codec;
};
template <typename T>
requires std::is_integral_v<T>
struct SignlessOf<Plain<T>> {
  using Type = Plain<std::make_unsigned_t<T>>;
};

// Every result begins with the operator's neutral element, which keeps the other operand bit for bit.
struct Add {
  template <typename A>
  TUTTI_DEVICE static A Neutral() {
    if constexpr (std::is_floating_point_v<A>) return -A{0};  // 0 + -0 is 0
    return A{0};
  }
  template <typename A>
  TUTTI_DEVICE static A Combine(A a, A b) {
    if constexpr (std::is_floating_point_v<A>) return a + b;
    using U = std::make_unsigned_t<std::conditional_t<std::is_floating_point_v<A>, int, A>>;
    return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
  }
};

struct Multiply {
  template <typename A>
  TUTTI_DEVICE static A Neutral() {
    return A{1};
  }
  template <typename A>
  TUTTI_DEVICE static A Combine(A a, A b) {
    if constexpr (std::is_floating_point_v<A>) return a * b;
    // In 64 bits: short types are promoted to int, whose product may overflow.
    using U = std::make_unsigned_t<std::conditional_t<std::is_floating_point_v<A>, int, A>>;
    return static_cast<A>(static_cast<U>(a) * std::uint64_t{static_cast<U>(b)});
  }
};

// IEEE 754-2019 maximum and minimum: NaN wins, and -0 < +0.
template <bool kMax>
struct Extreme {
  template <typename A>
  TUTTI_DEVICE static A Neutral() {
    using Limits = std::numeric_limits<A>;
    if constexpr (std::is_floating_point_v<A>) return kMax ? -Limits::infinity() : Limits::infinity();
    return kMax ? Limits::lowest() : Limits::max();
  }
  template <typename A>
  TUTTI_DEVICE static A Combine(A a, A b) {
#if defined(__CUDA_ARCH__)
    // One instruction: NaN wins, and PTX orders the zeros.
    if constexpr (std::is_same_v<A, float>) {
      float result;
      if constexpr (kMax) {
        asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
      } else {
        asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
      }
      return result;
    }
#endif
    if constexpr (std::is_floating_point_v<A>) {
      if (a != a) return a;
      if (b != b) return b;
      // Equal values differ at most in a zero's sign; a's sign bit decides.
      if (a == b) return IsNegative(a) == kMax ? b : a;
    }
    return (a < b) == kMax ? b : a;
  }

 private:
  TUTTI_DEVICE static bool IsNegative(float x) { return std::bit_cast<std::int32_t>(x) < 0; }
  TUTTI_DEVICE static bool IsNegative(double x) { return std::bit_cast<std::int64_t>(x) < 0; }
  template <typename A>
  TUTTI_DEVICE static bool IsNegative(A x) {
    return x < 0;
  }
};
using Maximum = Extreme<true>;
using Minimum = Extreme<false>;

// The average's division; integers divide toward zero.
template <typename A>
TUTTI_DEVICE A DividedBy(A sum, std::int32_t divisor) {
  if constexpr (std::is_floating_point_v<A> || sizeof(A) == sizeof(std::int64_t)) {
    return sum / static_cast<A>(divisor);
  } else if constexpr (std::is_unsigned_v<A>) {
    return static_cast<A>(sum / static_cast<std::uint32_t>(divisor));
  } else {
    return static_cast<A>(sum / divisor);
  }
}

// The arithmetic that a plan needs: type * kReducerOps + op (average is a sum with a divisor).
inline constexpr int kReducerOps = 4;
static_assert(tuttiSum == 0 && tuttiProd == 1 && tuttiMax == 2 && tuttiMin == 3);
constexpr std::uint16_t ReducerOf(tuttiDataType_t type, tuttiRedOp_t op) {
  return static_cast<std::uint16_t>(type * kReducerOps + (op == tuttiAvg ? tuttiSum : op));
}
constexpr tuttiDataType_t TypeOfReducer(std::uint32_t reducer) {
  return static_cast<tuttiDataType_t>(reducer / kReducerOps);
}

// Whether a switch adds elements of the codec (multimem.h), and whether their sums can be averaged: a 16-bit float's
// cannot, because the switch rounds the sum, which may overflow where the average does not.
template <typename Codec>
inline constexpr bool kAveragedInSwitch = sizeof(typename Codec::Memory) >= sizeof(std::uint32_t);
template <typename Codec>
inline constexpr bool kAddedInSwitch = kAveragedInSwitch<Codec> ||
                                       (std::is_floating_point_v<typename Codec::Accumulator> &&
                                        sizeof(typename Codec::Memory) == sizeof(std::uint16_t));

}  // namespace tutti::cuda_kernels
