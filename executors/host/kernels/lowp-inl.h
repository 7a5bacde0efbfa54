// base/numbers/lowp.h's conversions for vectors: the same bits for the same element, whatever the target and the
// vector's width. Included once per Highway target (hwy/foreach_target.h), hence the toggled guard.
//
// A vector of codes is a vector of int32, one code a lane. D is always the fp32 tag.
#if defined(TUTTI_HOST_LOWP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_HOST_LOWP_INL
#undef TUTTI_HOST_LOWP_INL
#else
#define TUTTI_HOST_LOWP_INL
#endif

#include <hwy/highway.h>

#include <limits>
#include <type_traits>

#include "base/numbers/lowp.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::host_kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using CodeTag = hn::Rebind<std::int32_t, D>;

// fp32 -> fp32 where every NaN is the canonical one.
template <class D>
HWY_INLINE hn::VFromD<D> CanonicalNan(D d, hn::VFromD<D> value) {
  const auto nan = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN());
  return hn::IfThenElse(hn::Eq(value, value), value, nan);
}

template <class Format, class D>
HWY_INLINE hn::VFromD<D> Decode(D d, hn::VFromD<CodeTag<D>> code) {
  using C = Conversion<Format>;
  const CodeTag<D> di;
  if constexpr (Format::kBias == kFloatBias) {
    return hn::BitCast(d, hn::ShiftLeft<C::kShift>(code));
  } else {
    const auto magnitude = hn::And(code, hn::Set(di, C::kMagnitude));
    const auto sign = hn::ShiftLeft<C::kSignShift>(hn::Xor(code, magnitude));
    const auto shifted = hn::ShiftLeft<C::kShift>(magnitude);
    const auto smallest = hn::Set(di, C::kSmallestNormal);
    const auto subnormal = hn::Sub(hn::BitCast(d, hn::Add(shifted, smallest)), hn::BitCast(d, smallest));
    const auto normal = hn::Add(shifted, hn::Set(di, C::kRebias));
    const auto finite =
        hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 1 << Format::kMantissaBits)), hn::BitCast(di, subnormal), normal);
    const auto infinity = hn::Set(di, Format::kHasInfinity ? kFloatInfinity : kFloatNan);
    const auto special = hn::Or(shifted, infinity);
    const auto bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, Format::kFirstSpecial - 1)), special, finite);
    return hn::BitCast(d, hn::Or(bits, sign));
  }
}

// bfloat16 is the upper half of an fp32; this is the fp32 whose upper half is the rounded value. Its lower half is of
// no use.
template <class D>
HWY_INLINE hn::VFromD<CodeTag<D>> RoundToUpperHalf(D d, hn::VFromD<D> value) {
  using C = Conversion<Bfloat16>;
  const CodeTag<D> di;
  const auto nan = hn::BitCast(d, hn::Set(di, Bfloat16::kNan << C::kShift));
  const auto bits = hn::BitCast(di, hn::IfThenElse(hn::Eq(value, value), value, nan));
  const auto odd = hn::And(hn::ShiftRight<C::kShift>(bits), hn::Set(di, 1));
  return hn::Add(hn::Add(bits, hn::Set(di, C::kAlmostHalf)), odd);
}

template <class Format, class D>
HWY_INLINE hn::VFromD<CodeTag<D>> Encode(D d, hn::VFromD<D> value) {
  using C = Conversion<Format>;
  const CodeTag<D> di;
  if constexpr (std::is_same_v<Format, Bfloat16>) {
    const hn::RebindToUnsigned<CodeTag<D>> du;  // for a shift that fills with zeros
    return hn::BitCast(di, hn::ShiftRight<C::kShift>(hn::BitCast(du, RoundToUpperHalf(d, value))));
  } else {
    const auto bits = hn::BitCast(di, value);
    const auto magnitude = hn::And(bits, hn::Set(di, kFloatMagnitude));
    const auto odd = hn::And(hn::ShiftRight<C::kShift>(magnitude), hn::Set(di, 1));
    const auto rebiased = hn::Add(magnitude, hn::Set(di, C::kAlmostHalf - C::kRebias));
    const auto normal = hn::ShiftRight<C::kShift>(hn::Add(rebiased, odd));
    const auto rounder = hn::Set(di, C::kRounder);
    const auto rounded = hn::Add(hn::BitCast(d, magnitude), hn::BitCast(d, rounder));
    const auto subnormal = hn::Sub(hn::BitCast(di, rounded), rounder);
    const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, C::kSmallestNormal)), subnormal, normal);
    const auto code = hn::Min(finite, hn::Set(di, Format::kLargest));
    // The sign lands in its place by an arithmetic shift of the whole; the mask drops the copies above it.
    const auto sign = hn::And(hn::ShiftRight<C::kSignShift>(bits), hn::Set(di, Format::kSign));
    const auto is_nan = hn::Gt(magnitude, hn::Set(di, kFloatInfinity));
    return hn::IfThenElse(is_nan, hn::Set(di, Format::kNan), hn::Or(code, sign));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti::host_kernels
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_HOST_LOWP_INL
