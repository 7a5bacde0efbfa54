#include "base/numbers/divisor.h"

#include <gtest/gtest.h>

#include <random>

namespace tutti {
namespace {

TEST(Divisor, IsWhatDivisionIs) {
  // Numbers around powers of two, and random ones.
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> numbers;
  for (unsigned bit = 0; bit < 64; ++bit) {
    for (int off = -2; off <= 2; ++off) numbers.push_back((std::uint64_t{1} << bit) + static_cast<std::uint64_t>(off));
    for (int i = 0; i < 10; ++i) numbers.push_back(random() >> bit);
  }
  for (const auto value : numbers) {
    if (value == 0) continue;
    const Divisor divisor(value);
    EXPECT_EQ(divisor.value(), value);
    for (const auto n : numbers) {
      ASSERT_EQ(divisor.Quotient(n), n / value) << n << " / " << value;
      const std::uint64_t multiple = n / value * value;
      ASSERT_EQ(divisor.Quotient(multiple), n / value) << multiple << " / " << value;
      if (multiple == 0) continue;
      ASSERT_EQ(divisor.Quotient(multiple - 1), n / value - 1) << multiple - 1 << " / " << value;
    }
  }
}

TEST(Divisor, SmallNumbersByAllTheSmallOnes) {
  for (std::uint64_t value = 1; value < 300; ++value) {
    const Divisor divisor(value);
    for (std::uint64_t n = 0; n < 5000; ++n) ASSERT_EQ(divisor.Quotient(n), n / value) << n << " / " << value;
  }
  static_assert(Divisor(7).Quotient(50) == 7);
}

}  // namespace
}  // namespace tutti
