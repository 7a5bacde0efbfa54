#include "tools/simulator/published.h"

#include <gtest/gtest.h>

namespace tutti::tools {
namespace {

// The constants are calibrated once per type of machine; together they must meet these limits.
TEST(Published, AreReachedWithinTheLimits) {
  const auto comparisons = ComparePublished("selection/simulator/testdata/published.csv");
  EXPECT_EQ(comparisons.size(), 20u);
  EXPECT_LE(MedianError(comparisons), 0.15);
  for (const Comparison& comparison : comparisons) {
    EXPECT_LE(std::abs(comparison.Error()), 0.35) << comparison.system << ", " << comparison.bytes << " bytes";
  }
}

}  // namespace
}  // namespace tutti::tools
