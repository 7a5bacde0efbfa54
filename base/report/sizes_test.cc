#include "base/report/sizes.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "base/usage_error.h"

namespace tutti::report {
namespace {

TEST(ParseSize, UnderstandsUnits) {
  EXPECT_EQ(ParseSize("8"), 8u);
  EXPECT_EQ(ParseSize("64K"), 65536u);
  EXPECT_EQ(ParseSize("1m"), 1u << 20);
  EXPECT_EQ(ParseSize("1.5M"), 3u << 19);
  EXPECT_EQ(ParseSize("2GiB"), 2ull << 30);
  EXPECT_EQ(ParseSize("16KB"), 16384u);
  EXPECT_EQ(ParseSize("0"), 0u);
}

TEST(ParseSize, RefusesWhatIsNoSize) {
  for (const char* text : {"", "K", "-8", "8 8", "1Q", "1KK", "0.3", "nan", "inf", "1e300", "99999T", "8\n"}) {
    EXPECT_THROW(ParseSize(text), UsageError) << text;
  }
}

TEST(FormatSize, IsReadBack) {
  for (const std::size_t bytes :
       {0ull, 1ull, 1000ull, 1024ull, 65536ull, 65537ull, 3ull << 19, 128ull << 20, 1ull << 40}) {
    EXPECT_EQ(ParseSize(FormatSize(bytes)), bytes);
  }
}

TEST(Sweep, GoesByFactorOrStep) {
  EXPECT_EQ(Sweep(8, 64, 2, 1), (std::vector<std::size_t>{8, 16, 32, 64}));
  EXPECT_EQ(Sweep(8, 100, 3, 1), (std::vector<std::size_t>{8, 24, 72}));
  EXPECT_EQ(Sweep(10, 30, 1, 10), (std::vector<std::size_t>{10, 20, 30}));
  EXPECT_EQ(Sweep(7, 7, 1, 0), (std::vector<std::size_t>{7}));
  EXPECT_EQ(Sweep(1, 4, 1.1, 0), (std::vector<std::size_t>{1, 2, 3, 4})) << "a small factor still moves on";
}

TEST(Sweep, RefusesWhatWouldNeverEnd) {
  EXPECT_THROW(Sweep(9, 8, 2, 1), UsageError);
  EXPECT_THROW(Sweep(8, 16, 1, 0), UsageError);
  EXPECT_THROW(Sweep(0, 16, 2, 1), UsageError);
  EXPECT_THROW(Sweep(0, 1u << 30, 1, 1), UsageError);
}

}  // namespace
}  // namespace tutti::report
