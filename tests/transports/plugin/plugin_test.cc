// Collectives between hosts through the test plug-in (test_net.h): the results are right whatever the version of its
// table, and however reluctantly it takes what it is given.
#include <chrono>
#include <thread>

#include "testing/collective_case.h"
#include "tests/transports/plugin/on_plugin.h"

namespace tutti::testing {
namespace {

struct Manner {
  std::string name;
  int version;
  std::string misbehaviour;
};

// Without it, a test's description would have addresses.
void PrintTo(const Manner& manner, std::ostream* out) { *out << manner.name; }

class Plugin : public ::testing::TestWithParam<Manner> {};

TEST_P(Plugin, ResultsAreRight) {
  constexpr int kRanks = 4;
  constexpr std::size_t kMost = 3'000'000;  // longer than any slot
  const auto& manner = GetParam();
  const auto run = [&](Rank& self) {
    const auto comm = self.Join();
    Arena arena(Arena::Kind::plain, kMost + 1'000);
    auto cases = MixedCases(1, 2 * kWhats, kRanks, kMost);
    for (const std::size_t count : {std::size_t{1}, std::size_t{1'000}, kMost / sizeof(float)})
      cases.push_back({.count = count});
    for (const auto& each : cases) {
      EXPECT_EQ(RunCase(each, self.rank(), kRanks, comm, nullptr, arena), "") << each.Describe();
    }
    EXPECT_GT(BytesThroughPlugin(comm), 0U);
  };
  for (const bool threads : {false, true})
    RunRanks(kRanks, run, OnPlugin(TestNet(manner.version), manner.misbehaviour, threads));
}

INSTANTIATE_TEST_SUITE_P(As, Plugin,
                         ::testing::Values(Manner{"version_8", 8, ""}, Manner{"version_9", 9, ""},
                                           Manner{"version_10", 10, ""}, Manner{"version_11", 11, ""},
                                           Manner{"slow_to_connect", 11, "polls=50"},
                                           Manner{"often_not_now", 11, "nulls=3"},
                                           Manner{"in_small_steps", 8, "piece=3000"},
                                           Manner{"short_pieces", 10, "most_bytes=5000"},
                                           Manner{"all_of_it", 9, "polls=9,nulls=2,piece=7000,most_bytes=10001"}),
                         [](const auto& manner) { return manner.param.name; });

// As on libnccl.so.2, where no wait has an end: the plug-in still has time to start.
TEST(PluginChoice, ItIsUsedWhereWaitsHaveNoEnd) {
  auto options = OnPlugin(TestNet(11), "");
  options.environment.emplace_back("TUTTI_INIT_TIMEOUT_MS", "0");
  options.environment.emplace_back("TUTTI_TIMEOUT_MS", "0");
  RunRanks(
      2,
      [](Rank& self) {
        const auto comm = self.Join();
        float value = 1;
        EXPECT_TRUE(Ok(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, nullptr)));
        EXPECT_EQ(value, 2);
        EXPECT_GT(BytesThroughPlugin(comm), 0U);
      },
      options);
}

// Windows are registered with the plug-in, and sent from where they lie.
TEST(PluginWindows, AreSentInPlaceAndDeregistered) {
  RunRanks(
      2,
      [](Rank& self) {
        const auto comm = self.Join();
        Arena arena(Arena::Kind::allocated, 1'000'000);
        for (int round = 0; round < 2; ++round) {
          arena.Register(comm);
          for (const auto what : {What::all_reduce, What::all_gather, What::broadcast}) {
            const Case each{.what = what, .count = 100'000};
            EXPECT_EQ(RunCase(each, self.rank(), 2, comm, nullptr, arena), "") << each.Describe();
          }
          arena.Deregister(comm);
        }
      },
      OnPlugin(TestNet(11), "nulls=2"));
}

// Nothing is on its way any more when the connections of an orderly end are closed.
TEST(PluginEnds, AreOrderly) {
  for (const bool threads : {false, true}) {
    RunRanks(
        4,
        [](Rank& self) {
          for (int which = 0; which < 2; ++which) {
            auto comm = self.Join(nullptr, which);
            std::vector<float> data(100'000, 1);
            ASSERT_TRUE(Ok(AllReduce(comm, data)));
            EXPECT_EQ(data.back(), 4);
            self.Meet();
            comm.Destroy();
          }
        },
        OnPlugin(TestNet(11), "tidy=1", threads));
  }
}

// A rank that leaves long before another one closes no connection whose requests are not done.
TEST(PluginEnds, AreOrderlyAlsoFarApart) {
  constexpr std::chrono::milliseconds kLongerThanAnyPatience{700};
  for (const bool threads : {false, true}) {
    RunRanks(
        2,
        [&](Rank& self) {
          for (int which = 0; which < 2; ++which) {
            auto comm = self.Join(nullptr, which);
            std::vector<float> data(100'000, 1);
            ASSERT_TRUE(Ok(AllReduce(comm, data)));
            self.Meet();
            if (self.rank() == 1) std::this_thread::sleep_for(kLongerThanAnyPatience);
            comm.Destroy();
            self.Meet();
          }
        },
        // As many connections as one communicator needs: those of the first one are closed in the end.
        OnPlugin(TestNet(11), threads ? "tidy=1" : "tidy=1,most_connections=4", threads));
  }
}

TEST(PluginChoice, ThePluginIsUsedWhereItIsNamed) {
  const auto bytes = [](const std::vector<std::pair<std::string, std::string>>& more, bool expected) {
    auto options = OnPlugin(TestNet(11), "");
    for (const auto& variable : more) options.environment.push_back(variable);
    RunRanks(
        2,
        [&](Rank& self) {
          const auto comm = self.Join();
          std::vector<float> data(1000, 1);
          ASSERT_TRUE(Ok(tuttiAllReduce(data.data(), data.data(), data.size(), tuttiFloat32, tuttiSum, comm, nullptr)));
          EXPECT_EQ(BytesThroughPlugin(comm) > 0, expected);
        },
        options);
  };
  bytes({}, true);
  bytes({{"TUTTI_NET", "plugin"}}, true);
  bytes({{"TUTTI_NET", "tcp"}}, false);
}

// NCCL's short name for libnccl-net-NAME.so.
TEST(PluginChoice, ShortNamesAreFoundWhereTheLoaderLooks) {
  RunRanks(
      2,
      [](Rank& self) {
        const auto comm = self.Join();
        EXPECT_TRUE(Ok(tuttiBarrier(comm, nullptr)));
      },
      OnPlugin("testv10", ""));
}

}  // namespace
}  // namespace tutti::testing
