#include "topology/search/cheapest_cycle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace tutti::search {
namespace {

double Length(const std::vector<double>& cost, const std::vector<int>& trip) {
  const int n = static_cast<int>(trip.size());
  double sum = 0;
  for (int k = 0; k < n; ++k) sum += cost[trip[k] * n + trip[(k + 1) % n]];
  return sum;
}

std::vector<double> RandomCosts(int points, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(1, 10);
  std::vector<double> cost(points * points);
  for (double& c : cost) c = uniform(random);
  return cost;
}

bool VisitsAllOnceFrom0(const std::vector<int>& trip, int points) {
  std::vector<int> sorted = trip;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int> all(points);
  std::iota(all.begin(), all.end(), 0);
  return sorted == all && trip.front() == 0;
}

TEST(CheapestCycle, IsTheCheapestOfAllFewPoints) {
  constexpr int kPoints = 7;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const std::vector<double> cost = RandomCosts(kPoints, seed);
    std::vector<int> trip(kPoints);
    std::iota(trip.begin(), trip.end(), 0);
    double cheapest = kNoWay;
    do cheapest = std::min(cheapest, Length(cost, trip));
    while (std::next_permutation(trip.begin() + 1, trip.end()));
    const std::vector<int> found = CheapestCycle(cost, kPoints);
    ASSERT_TRUE(VisitsAllOnceFrom0(found, kPoints));
    EXPECT_DOUBLE_EQ(Length(cost, found), cheapest);
  }
}

TEST(CheapestCycle, OfManyPointsIsGood) {
  // Points on a circle, visited in a scrambled order: the cheapest trip is the circle.
  constexpr int kPoints = 24;
  std::vector<double> cost(kPoints * kPoints);
  const auto place = [](int p) { return p * 7 % kPoints; };
  for (int a = 0; a < kPoints; ++a) {
    for (int b = 0; b < kPoints; ++b) {
      const int apart = std::abs(place(a) - place(b));
      cost[a * kPoints + b] = std::min(apart, kPoints - apart);
    }
  }
  const std::vector<int> trip = CheapestCycle(cost, kPoints);
  ASSERT_TRUE(VisitsAllOnceFrom0(trip, kPoints));
  EXPECT_DOUBLE_EQ(Length(cost, trip), kPoints);
}

TEST(CheapestCycle, TakesOnlyWaysThatExist) {
  for (const int points : {6, 20}) {
    std::vector<double> cost(points * points, kNoWay);
    for (int p = 0; p < points; ++p) cost[p * points + (p + 1) % points] = 1;
    EXPECT_DOUBLE_EQ(Length(cost, CheapestCycle(cost, points)), points);
    cost[points - 1] = 1;                               // 0 to the last one, which is of no use,
    cost[(points - 2) * points + points - 1] = kNoWay;  // and nothing else leads there
    EXPECT_TRUE(CheapestCycle(cost, points).empty()) << points;
  }
}

TEST(CheapestCycle, NeedsTwoPoints) {
  EXPECT_TRUE(CheapestCycle({}, 0).empty());
  EXPECT_TRUE(CheapestCycle({0}, 1).empty());
  EXPECT_EQ(CheapestCycle({0, 1, 1, 0}, 2), (std::vector<int>{0, 1}));
}

}  // namespace
}  // namespace tutti::search
