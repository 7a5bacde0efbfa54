#include "bench/report/statistics.h"

#include <gtest/gtest.h>

namespace tutti::bench {
namespace {

TEST(Statistics, OfKnownSamples) {
  EXPECT_DOUBLE_EQ(Mean({1, 2, 6}), 3);
  EXPECT_DOUBLE_EQ(Median({9, 1, 5}), 5);
  EXPECT_DOUBLE_EQ(Median({9, 1, 5, 7}), 6);
  EXPECT_DOUBLE_EQ(GeometricMean({1, 4, 16}), 4);
}

TEST(Statistics, InterquartileMeanForgetsTheEnds) {
  EXPECT_DOUBLE_EQ(InterquartileMean({3}), 3);
  EXPECT_DOUBLE_EQ(InterquartileMean({4, 2}), 3);
  EXPECT_DOUBLE_EQ(InterquartileMean({1, 5, 1000}), 5);
  EXPECT_DOUBLE_EQ(InterquartileMean({0, 1000, 4, 2}), 3);
  EXPECT_DOUBLE_EQ(InterquartileMean({1, 1, 1, 1, 3, 3, 3, 3}), 2) << "between two points";
}

TEST(Percentile, IsTheNearestRank) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  EXPECT_DOUBLE_EQ(Percentile(values, 99), 99);
  EXPECT_DOUBLE_EQ(Percentile(values, 100), 100);
  EXPECT_DOUBLE_EQ(Percentile(values, 0.5), 1);
  EXPECT_DOUBLE_EQ(Percentile({7}, 99), 7);
  EXPECT_DOUBLE_EQ(Percentile({1, 2, 3}, 99), 3);
}

}  // namespace
}  // namespace tutti::bench
