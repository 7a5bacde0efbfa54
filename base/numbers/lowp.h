// The 8- and 16-bit float formats: what their bits mean, and scalar conversions to and from fp32.
//
// ToFloat is exact. FromFloat rounds once, to nearest, ties to even, subnormals included. Values that do not fit:
//   float16, bfloat16   overflow becomes infinity; infinity is kept
//   float8e4m3          overflow and infinity saturate to the largest finite value, +-448 (the format has no infinity)
//   float8e5m2          overflow and infinity saturate to the largest finite value, +-57344 (although the format has
//                       infinities: ToFloat reads them, FromFloat never makes one)
// A NaN of any sign and payload becomes the format's one canonical NaN (kNan; sign clear). These are the saturating
// conversions of CUDA's fp8 types and its canonical NaNs for the 16-bit ones.
//
// Pure functions. They do not depend on the thread's flush-to-zero mode, and need its rounding mode to be the default.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace tutti {

// The bits of an IEEE 754 single.
inline constexpr int kFloatMantissaBits = 23;
inline constexpr int kFloatBias = 127;
inline constexpr std::int32_t kFloatMagnitude = 0x7fff'ffff;
inline constexpr std::int32_t kFloatInfinity = 0x7f80'0000;
inline constexpr std::int32_t kFloatNan = 0x7fc0'0000;  // the canonical quiet NaN

// In each format: kSign the sign bit; kNan the canonical NaN; kFirstSpecial the smallest magnitude that is not a finite
// number; kLargest the magnitude that FromFloat clamps to.
struct Float16 {
  using Storage = std::uint16_t;
  static constexpr int kMantissaBits = 10, kBias = 15;
  static constexpr std::int32_t kSign = 0x8000, kFirstSpecial = 0x7c00, kLargest = 0x7c00, kNan = 0x7fff;
  static constexpr bool kHasInfinity = true;
};

struct Bfloat16 {
  using Storage = std::uint16_t;
  static constexpr int kMantissaBits = 7, kBias = kFloatBias;
  static constexpr std::int32_t kSign = 0x8000, kFirstSpecial = 0x7f80, kLargest = 0x7f80, kNan = 0x7fff;
  static constexpr bool kHasInfinity = true;
};

struct Float8E4M3 {
  using Storage = std::uint8_t;
  static constexpr int kMantissaBits = 3, kBias = 7;
  static constexpr std::int32_t kSign = 0x80, kFirstSpecial = 0x7f, kLargest = 0x7e, kNan = 0x7f;
  static constexpr bool kHasInfinity = false;
};

struct Float8E5M2 {
  using Storage = std::uint8_t;
  static constexpr int kMantissaBits = 2, kBias = 15;
  static constexpr std::int32_t kSign = 0x80, kFirstSpecial = 0x7c, kLargest = 0x7b, kNan = 0x7f;
  static constexpr bool kHasInfinity = true;
};

// The constants of the conversions, for any format with a smaller exponent than fp32. The vector code uses them too.
template <typename Format>
struct Conversion {
  // Mantissa bits that fp32 has in addition to the format's.
  static constexpr int kShift = kFloatMantissaBits - Format::kMantissaBits;
  static constexpr std::int32_t kMagnitude = Format::kSign - 1;
  // From the sign bit's place in the format to fp32's.
  static constexpr int kSignShift = 32 - std::bit_width(static_cast<std::uint32_t>(Format::kSign));
  // The difference of the exponents, in place.
  static constexpr std::int32_t kRebias = (kFloatBias - Format::kBias) << kFloatMantissaBits;
  // The format's smallest normal number, as an fp32. Adding a subnormal's mantissa in place to it and subtracting it as
  // a number is the subnormal's value, exactly.
  static constexpr std::int32_t kSmallestNormal = kRebias + (1 << kFloatMantissaBits);
  // An fp32 whose unit in the last place is the format's smallest subnormal: adding it rounds to subnormals.
  static constexpr std::int32_t kRounder = kSmallestNormal + (kShift << kFloatMantissaBits);
  // All but one unit of half a unit in the format's last place; with the last kept bit added, rounds ties to even.
  static constexpr std::int32_t kAlmostHalf = (1 << (kShift - 1)) - 1;
};

template <typename Format>
constexpr float ToFloat(typename Format::Storage code) {
  using C = Conversion<Format>;
  const std::int32_t magnitude = code & C::kMagnitude;
  const std::int32_t sign =
      static_cast<std::int32_t>(static_cast<std::uint32_t>(code & Format::kSign) << C::kSignShift);
  const std::int32_t shifted = magnitude << C::kShift;
  std::int32_t bits = 0;
  if constexpr (Format::kBias == kFloatBias) {
    bits = shifted;
  } else if (magnitude >= Format::kFirstSpecial) {
    bits = Format::kHasInfinity ? (shifted | kFloatInfinity) : kFloatNan;
  } else if (magnitude < (1 << Format::kMantissaBits)) {
    bits = std::bit_cast<std::int32_t>(std::bit_cast<float>(shifted + C::kSmallestNormal) -
                                       std::bit_cast<float>(C::kSmallestNormal));
  } else {
    bits = shifted + C::kRebias;
  }
  return std::bit_cast<float>(bits | sign);
}

template <typename Format>
constexpr typename Format::Storage FromFloat(float value) {
  using C = Conversion<Format>;
  const std::int32_t bits = std::bit_cast<std::int32_t>(value);
  const std::int32_t magnitude = bits & kFloatMagnitude;
  if (magnitude > kFloatInfinity) return static_cast<typename Format::Storage>(Format::kNan);
  const std::int32_t sign =
      static_cast<std::int32_t>(static_cast<std::uint32_t>(bits ^ magnitude) >> C::kSignShift) & Format::kSign;
  std::int32_t code = 0;
  if (Format::kBias != kFloatBias && magnitude < C::kSmallestNormal) {
    code =
        std::bit_cast<std::int32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(C::kRounder)) - C::kRounder;
  } else {
    const std::int32_t odd = (magnitude >> C::kShift) & 1;
    code = (magnitude - C::kRebias + C::kAlmostHalf + odd) >> C::kShift;
  }
  return static_cast<typename Format::Storage>(std::min(code, Format::kLargest) | sign);
}

}  // namespace tutti
