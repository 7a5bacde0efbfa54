// A wake-up must end every sleep. The library counts sleeps that time out although there is work, so these tests need
// no clock.
#include <vector>

#include "testing/ranks.h"

namespace tutti::testing {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

constexpr int kCalls = 300;
// A publisher may be preempted between its store and its wake-up, just as a sleep times out. The library is not to
// blame for that.
constexpr std::uint64_t kByChance = 1;

void EveryRingIsHeard(int ranks, bool threads, const Environment& environment) {
  RunRanks(ranks,
           [](Rank& self) {
             const auto comm = self.Join();
             std::vector<float> data(100'000);
             for (int call = 0; call < kCalls; ++call) ASSERT_TRUE(Ok(AllReduce(comm, data)));
             tuttiCounters_t counters{};
             counters.size = sizeof counters;
             ASSERT_TRUE(Ok(tuttiCommGetCounters(comm, &counters)));
             EXPECT_GT(counters.waitSleeps, 0U);
             EXPECT_LE(counters.waitLate, kByChance) << "of " << counters.waitSleeps << " sleeps";
             self.Meet();
           },
           {.threads = threads, .limit = std::chrono::seconds(200), .environment = environment});
}

class WakeUpsSlow : public ::testing::TestWithParam<std::tuple<int, const char*, const char*, bool>> {};

TEST_P(WakeUpsSlow, EveryRingIsHeard) {
  const auto [ranks, threads_each, hosts, as_threads] = GetParam();
  EveryRingIsHeard(ranks, as_threads,
                   {{"TUTTI_WAIT", "sleep"},
                    {"TUTTI_THREADS", threads_each},
                    {"TUTTI_CHANNELS", "4"},
                    {"TUTTI_VIRTUAL_HOSTS", hosts}});
}

// With helper threads, with a network, with both.
INSTANTIATE_TEST_SUITE_P(, WakeUpsSlow,
                         ::testing::Values(std::tuple(2, "1", "1", true), std::tuple(2, "2", "1", true),
                                           std::tuple(2, "3", "1", false), std::tuple(2, "1", "2", true),
                                           std::tuple(4, "2", "2", true), std::tuple(4, "3", "2", false)));

}  // namespace
}  // namespace tutti::testing
