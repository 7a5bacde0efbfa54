#include "base/number_ranges.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(NumberRanges, JoinsNeighbours) {
  EXPECT_EQ(NumberRanges({}), "N/A");
  EXPECT_EQ(NumberRanges({3}), "3");
  EXPECT_EQ(NumberRanges({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
}

}  // namespace
}  // namespace tutti
