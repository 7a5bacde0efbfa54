#include "src/init/network_probe.h"

#include <gtest/gtest.h>

namespace tutti::init {
namespace {

// What a pair of ranks would see.
ProbeTimes TimesOf(double latency, double message, double thread, double link) {
  return {.small = latency + 2 * message,
          .large = latency + 2 * message + 2 * thread + link,
          .small_stream = message,
          .stream = std::max(link, message + thread),
          .duplex = std::max(link, 2 * (message + thread))};
}

// Costs lie on a grid.
void ExpectNear(double actual, double expected) { EXPECT_NEAR(actual / expected, 1, 0.13) << actual; }

TEST(NetworkProbe, FindsALimitedLink) {
  const auto costs = CostsFrom(TimesOf(20, 2, 10, 524));  // 1 Gbit/s
  ASSERT_TRUE(costs);
  ExpectNear(costs->bandwidth, kLongProbe / 524e3);
  ExpectNear(costs->message_us, 2);
  ExpectNear(costs->latency.front(), 20);
  ExpectNear(costs->message_bandwidth, kLongProbe / 10e3);
}

// As measured on a network that tc limits to 10 Gbit/s, which takes 52 us for such a message.
TEST(NetworkProbe, FindsTheLinkThatLetsTheFirstBytesThrough) {
  for (const auto& times : {ProbeTimes{9.4, 26.7, 5.6, 43.9, 40.4}, ProbeTimes{7.3, 27.1, 4.08, 38.7, 49.3}}) {
    const auto costs = CostsFrom(times);
    ASSERT_TRUE(costs);
    EXPECT_NEAR(costs->bandwidth, 1.4, 0.2);
    EXPECT_NEAR(costs->message_bandwidth, 6.5, 1.5);
  }
}

// As measured without a limit: sending takes longer than receiving.
TEST(NetworkProbe, TellsAThreadFromALinkThoughSendingTakesLonger) {
  for (const auto& times : {ProbeTimes{5.6, 25.2, 3.91, 17.1, 24.3}, ProbeTimes{7.2, 27.0, 5.70, 23.1, 28.9}}) {
    const auto costs = CostsFrom(times);
    ASSERT_TRUE(costs);
    EXPECT_GT(costs->bandwidth, 7);
    EXPECT_NEAR(costs->message_bandwidth, 6.5, 1.5);
  }
}

TEST(NetworkProbe, FindsTheThreadWhereTheLinkIsFast) {
  const auto costs = CostsFrom(TimesOf(1, 3, 16, 0));
  ASSERT_TRUE(costs);
  ExpectNear(costs->message_bandwidth, kLongProbe / 16e3);
  ExpectNear(costs->message_us, 3);
  EXPECT_GT(costs->bandwidth, 50);
}

TEST(NetworkProbe, IsNotMisledByTimesThatContradictEachOther) {
  for (const auto& times : {ProbeTimes{10, 5, 20, 3, 1}, ProbeTimes{1, 1e6, 1, 1, 1}, ProbeTimes{1, 2, 0, 1e6, 1}}) {
    const auto costs = CostsFrom(times);
    ASSERT_TRUE(costs);
    for (const double each :
         {costs->bandwidth, costs->message_bandwidth, costs->message_us + 1, costs->latency[0] + 1}) {
      EXPECT_TRUE(each > 0 && each < 1e9) << each;
    }
  }
  EXPECT_FALSE(CostsFrom({}));
  EXPECT_FALSE(CostsFrom({.small = 5, .large = 10, .small_stream = 1, .stream = 0, .duplex = 4}));
}

}  // namespace
}  // namespace tutti::init
