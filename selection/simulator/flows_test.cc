#include "selection/simulator/flows.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>
#include <vector>

namespace tutti::simulator {
namespace {

constexpr double kFree = std::numeric_limits<double>::infinity();
constexpr double kGBs = 1e-3;  // in bytes a picosecond

TEST(Flows, OneGetsItsNarrowestResource) {
  const std::array bandwidths = {10.0, 4.0};
  Flows flows(bandwidths);
  const std::array route = {0, 1};
  flows.Add(route);
  flows.Start(0, 1e6, kFree, 0);
  flows.Settle(0);
  EXPECT_EQ(flows.EndOf(0), FromMicroseconds(250));
}

TEST(Flows, TwoShareALinkAndTheSecondSpeedsUpWhenTheFirstIsThrough) {
  const std::array bandwidths = {10.0};
  Flows flows(bandwidths);
  const std::array route = {0};
  flows.Add(route);
  flows.Add(route);
  flows.Start(0, 1e6, kFree, 0);
  flows.Start(1, 2e6, kFree, 0);
  flows.Settle(0);
  ASSERT_EQ(flows.EndOf(0), FromMicroseconds(200));  // at 5 GB/s each
  flows.End(0);
  flows.Settle(flows.EndOf(0));
  EXPECT_EQ(flows.EndOf(1), FromMicroseconds(300));  // the second half at 10
  flows.End(1);
  EXPECT_DOUBLE_EQ(flows.BytesOver(0), 3e6);
}

TEST(Flows, WhatOneCannotUseTheOthersGet) {
  const std::array bandwidths = {10.0};
  Flows flows(bandwidths);
  const std::array route = {0};
  for (int i = 0; i < 3; ++i) flows.Add(route);
  flows.Start(0, 1e6, 2, 0);
  flows.Start(1, 1e6, kFree, 0);
  flows.Start(2, 1e6, kFree, 0);
  flows.Settle(0);
  EXPECT_DOUBLE_EQ(flows.RateOf(0), 2 * kGBs);
  EXPECT_DOUBLE_EQ(flows.RateOf(1), 4 * kGBs);
  EXPECT_DOUBLE_EQ(flows.RateOf(2), 4 * kGBs);
}

// The textbook case: a long flow over two links, and two more flows that share one of them.
TEST(Flows, AFlowHeldBackElsewhereLeavesTheRestToOthers) {
  const std::array bandwidths = {9.0, 10.0};
  Flows flows(bandwidths);
  const std::array both = {0, 1};
  const std::array first = {0};
  const std::array second = {1};
  flows.Add(both);
  flows.Add(first);
  flows.Add(first);
  flows.Add(second);
  for (int i = 0; i < 4; ++i) flows.Start(i, 1e6, kFree, 0);
  flows.Settle(0);
  for (int i = 0; i < 3; ++i) EXPECT_DOUBLE_EQ(flows.RateOf(i), 3 * kGBs) << i;
  EXPECT_DOUBLE_EQ(flows.RateOf(3), 7 * kGBs);
}

TEST(Flows, AResourceCrossedTwiceGivesHalf) {
  const std::array bandwidths = {10.0};
  Flows flows(bandwidths);
  const std::array route = {0, 0};
  flows.Add(route);
  flows.Start(0, 1e6, kFree, 0);
  flows.Settle(0);
  EXPECT_DOUBLE_EQ(flows.RateOf(0), 5 * kGBs);
}

// The definition of max-min fairness: each flow is at its peak, or crosses a full resource on which no flow is faster.
TEST(Flows, AreMaxMinFairAfterAnyStartsAndEnds) {
  std::mt19937 random(7);
  constexpr int kResources = 6;
  constexpr int kFlows = 20;
  std::vector<double> bandwidths;
  for (int i = 0; i < kResources; ++i) bandwidths.push_back(1 + static_cast<double>(random() % 20));
  Flows flows(bandwidths);
  std::vector<std::vector<int>> routes;
  for (int i = 0; i < kFlows; ++i) {
    const int first = static_cast<int>(random() % kResources);
    routes.push_back({first, static_cast<int>((first + 1 + random() % (kResources - 1)) % kResources)});
    flows.Add(routes.back());
  }
  std::vector<bool> running(kFlows, false);
  std::vector<double> peak(kFlows, 0);
  for (int round = 0; round < 500; ++round) {
    const Time now = round;
    for (int change = 0; change < 3; ++change) {
      const int flow = static_cast<int>(random() % kFlows);
      if (running[flow]) {
        flows.End(flow);
      } else {
        peak[flow] = 1 + static_cast<double>(random() % 10);
        flows.Start(flow, 1e12, peak[flow], now);
      }
      running[flow] = !running[flow];
      flows.Settle(now);
    }
    std::vector<double> used(kResources, 0);
    std::vector<double> fastest(kResources, 0);
    for (int i = 0; i < kFlows; ++i) {
      for (const int r : routes[i]) {
        if (!running[i]) continue;
        used[r] += flows.RateOf(i);
        fastest[r] = std::max(fastest[r], flows.RateOf(i));
      }
    }
    for (int r = 0; r < kResources; ++r) ASSERT_LE(used[r], bandwidths[r] * kGBs * (1 + 1e-9));
    for (int i = 0; i < kFlows; ++i) {
      if (!running[i]) continue;
      bool held = flows.RateOf(i) >= peak[i] * kGBs * (1 - 1e-9);
      for (const int r : routes[i]) {
        held |= used[r] >= bandwidths[r] * kGBs * (1 - 1e-9) && flows.RateOf(i) >= fastest[r] * (1 - 1e-9);
      }
      ASSERT_TRUE(held) << "flow " << i << " in round " << round << " could be faster";
    }
  }
}

}  // namespace
}  // namespace tutti::simulator
