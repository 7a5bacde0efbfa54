#include "base/numbers/lowp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace tutti {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The same formats, from their definition and in double precision: sign, exponent and mantissa fields.
template <typename Format>
double SlowValue(unsigned code) {
  const int mantissa_bits = Format::kMantissaBits;
  const unsigned mantissa = code & ((1u << mantissa_bits) - 1);
  const unsigned exponent = (code & (Format::kSign - 1u)) >> mantissa_bits;
  const unsigned top_exponent = (Format::kSign - 1u) >> mantissa_bits;
  const double sign = (code & Format::kSign) != 0 ? -1 : 1;
  if (std::is_same_v<Format, Float8E4M3>) {
    if ((code & 0x7f) == 0x7f) return std::nan("");
  } else if (exponent == top_exponent) {
    return mantissa != 0 ? std::nan("") : sign * kInfinity;
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - Format::kBias - mantissa_bits);
  return sign *
         std::ldexp((1u << mantissa_bits) + mantissa, static_cast<int>(exponent) - Format::kBias - mantissa_bits);
}

// Rounding by looking for the neighbours among all finite values.
template <typename Format>
class SlowRounding {
 public:
  SlowRounding() {
    for (unsigned code = 0; code < static_cast<unsigned>(Format::kSign); ++code) {
      const double value = SlowValue<Format>(code);
      if (std::isfinite(value)) finite_[value] = code;
    }
  }

  const std::map<double, unsigned>& finite() const { return finite_; }
  double largest() const { return finite_.rbegin()->first; }

  unsigned operator()(float value) const {
    if (std::isnan(value)) return Format::kNan;
    const unsigned sign = std::signbit(value) ? Format::kSign : 0;
    const double magnitude = std::fabs(static_cast<double>(value));
    auto above = finite_.lower_bound(magnitude);
    if (above == finite_.end()) {
      if (sizeof(typename Format::Storage) == 1) return sign | finite_.rbegin()->second;  // saturates
      // The value after the largest would be one more unit up; from half way (a tie goes to it: it would be even),
      // infinity.
      const double unit = largest() - std::prev(finite_.end(), 2)->first;
      return sign | (finite_.rbegin()->second + (magnitude >= largest() + unit / 2 ? 1 : 0));
    }
    if (above->first == magnitude) return sign | above->second;
    const auto below = std::prev(above);
    const double up = above->first - magnitude;
    const double down = magnitude - below->first;
    if (up == down) return sign | (above->second % 2 == 0 ? above->second : below->second);
    return sign | (up < down ? above->second : below->second);
  }

 private:
  std::map<double, unsigned> finite_;
};

template <typename Format>
class LowPrecision : public ::testing::Test {};

using Formats = ::testing::Types<Float16, Bfloat16, Float8E4M3, Float8E5M2>;
TYPED_TEST_SUITE(LowPrecision, Formats);

TYPED_TEST(LowPrecision, EveryCodeHasItsValue) {
  using Storage = typename TypeParam::Storage;
  for (unsigned code = 0; code < 2u * TypeParam::kSign; ++code) {
    const double expected = SlowValue<TypeParam>(code);
    const float value = ToFloat<TypeParam>(static_cast<Storage>(code));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else {
      EXPECT_EQ(value, expected) << code;
    }
    EXPECT_EQ(std::signbit(value), (code & TypeParam::kSign) != 0) << code;
  }
}

TYPED_TEST(LowPrecision, EveryNumberSurvivesTheRoundTrip) {
  using Storage = typename TypeParam::Storage;
  for (unsigned code = 0; code < 2u * TypeParam::kSign; ++code) {
    const float value = ToFloat<TypeParam>(static_cast<Storage>(code));
    const unsigned back = FromFloat<TypeParam>(value);
    if (std::isnan(value)) {
      EXPECT_EQ(back, static_cast<unsigned>(TypeParam::kNan)) << code;
    } else if (std::isinf(value) && sizeof(Storage) == 1) {
      EXPECT_EQ(back, code - 1) << "infinity saturates";
    } else {
      EXPECT_EQ(back, code);
    }
  }
}

TYPED_TEST(LowPrecision, RoundsToNearestEvenAroundEveryNumberAndEveryTie) {
  const SlowRounding<TypeParam> slow;
  const auto check = [&](float value) {
    for (const float signed_value : {value, -value}) {
      EXPECT_EQ(FromFloat<TypeParam>(signed_value), slow(signed_value)) << std::hexfloat << signed_value;
    }
  };
  double below = 0;
  for (const auto& [value, code] : slow.finite()) {
    for (const double probe : {value, (below + value) / 2}) {
      const auto exact = static_cast<float>(probe);
      check(exact);
      check(std::nextafter(exact, kInfinity));
      check(std::nextafter(exact, 0.0f));
    }
    below = value;
  }
  check(kInfinity);
  check(std::numeric_limits<float>::max());
  check(std::numeric_limits<float>::denorm_min());
}

TYPED_TEST(LowPrecision, RoundsFloatsOfEveryMagnitude) {
  const SlowRounding<TypeParam> slow;
  constexpr std::uint32_t kStride = 39'989;  // prime: every exponent, all manner of mantissas
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += kStride) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    ASSERT_EQ(FromFloat<TypeParam>(value), slow(value)) << std::hex << bits;
  }
}

TYPED_TEST(LowPrecision, OverflowKeepsNanAndSign) {
  const SlowRounding<TypeParam> slow;
  const auto largest = static_cast<float>(slow.largest());
  const bool saturates = sizeof(typename TypeParam::Storage) == 1;
  EXPECT_EQ(ToFloat<TypeParam>(FromFloat<TypeParam>(kInfinity)), saturates ? largest : kInfinity);
  EXPECT_EQ(ToFloat<TypeParam>(FromFloat<TypeParam>(-kInfinity)), saturates ? -largest : -kInfinity);
  EXPECT_EQ(FromFloat<TypeParam>(-std::nanf("7")), TypeParam::kNan);
}

TEST(LowPrecisionValues, AreThoseOfTheSpecifications) {
  EXPECT_EQ(ToFloat<Float8E4M3>(0x7e), 448.0f);
  EXPECT_EQ(ToFloat<Float8E5M2>(0x7b), 57344.0f);
  EXPECT_EQ(ToFloat<Float16>(0x7bff), 65504.0f);
  EXPECT_EQ(ToFloat<Float16>(0x0001), 0x1p-24f);
  EXPECT_EQ(ToFloat<Bfloat16>(0x3f80), 1.0f);
}

}  // namespace
}  // namespace tutti
