#include "src/init/network_probe.h"

#include <gtest/gtest.h>

namespace tutti::init {
namespace {

// What a pair of ranks would see.
ProbeTimes TimesOf(double latency, double message, double thread, double link) {
  const double work = message + thread;
  const double stream = std::max(link, work), duplex = std::max(link, 2 * work);
  return {.small = latency + 2 * message,
          .large = latency + 2 * work + link,
          .stream = stream,
          .duplex = duplex,
          .short_work = message,
          .long_work = work,
          .idle = 1 - 2 * work / duplex};
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

// As measured on a network that tc limits to 1 Gbit/s: its bucket is empty only in a stream.
TEST(NetworkProbe, DoesNotTakeWaitsForTheLinkForWork) {
  for (const auto& times : {ProbeTimes{9.6, 181.5, 486.8, 487.5, 4.56, 14.44, 0.73},
                            ProbeTimes{16.9, 223.4, 477.2, 464.5, 4.94, 16.60, 0.62}}) {
    const auto costs = CostsFrom(times);
    ASSERT_TRUE(costs);
    EXPECT_NEAR(costs->bandwidth, 0.13, 0.01);
    EXPECT_NEAR(costs->message_bandwidth, 6, 1.5);
  }
}

// As measured at 10 Gbit/s, which takes 52 us for such a message; in the second, both threads share a core.
TEST(NetworkProbe, FindsTheLinkThatLetsTheFirstBytesThrough) {
  for (const auto& times :
       {ProbeTimes{9.3, 30.6, 39.7, 43.9, 5.13, 22.47, 0}, ProbeTimes{11.6, 31.2, 37.4, 67.3, 3.55, 14.51, 0}}) {
    const auto costs = CostsFrom(times);
    ASSERT_TRUE(costs);
    EXPECT_NEAR(costs->bandwidth, 1.25, 0.35);
    EXPECT_NEAR(costs->message_bandwidth, 5, 1.5);
  }
}

// Where the system sends in place, sending costs little, and the receiver is the limit of one direction.
TEST(NetworkProbe, DoesNotTakeASlowReceiverForALink) {
  constexpr double kSending = 2, kReceiving = 12;
  const auto costs = CostsFrom({.small = 8,
                                .large = 8 + kSending + kReceiving,
                                .stream = kReceiving,
                                .duplex = kSending + kReceiving,
                                .short_work = 2,
                                .long_work = (kSending + kReceiving) / 2,
                                .idle = 0.02});
  ASSERT_TRUE(costs);
  EXPECT_GT(costs->bandwidth, kLongProbe / (kReceiving * 1e3));
}

// As measured without a limit: sending takes longer than receiving; in the second, both threads share a core.
TEST(NetworkProbe, TellsAThreadFromALink) {
  for (const auto& times :
       {ProbeTimes{7.5, 29.0, 24.7, 34.1, 3.70, 15.15, 0.08}, ProbeTimes{12.5, 35.5, 24.9, 50.1, 3.78, 12.53, 0}}) {
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
  for (const auto& times :
       {ProbeTimes{10, 5, 3, 1, 20, 4}, ProbeTimes{1, 1e6, 1, 1, 1, 1, 2}, ProbeTimes{1, 2, 1e6, 1, 0.001, 1e6, 0.5}}) {
    const auto costs = CostsFrom(times);
    ASSERT_TRUE(costs);
    for (const double each :
         {costs->bandwidth, costs->message_bandwidth, costs->message_us + 1, costs->latency[0] + 1}) {
      EXPECT_TRUE(each > 0 && each < 1e9) << each;
    }
  }
  EXPECT_FALSE(CostsFrom({}));
  EXPECT_FALSE(CostsFrom({.small = 5, .large = 10, .stream = 0, .duplex = 4, .short_work = 1, .long_work = 2}));
}

}  // namespace
}  // namespace tutti::init
