// Device collectives by a switch that adds and multiplies (nvls): all types and operators, in place and not, lengths
// around vectors and slots, ranks as threads and as processes; and where there is no such switch.
#include <string>
#include <utility>
#include <vector>

#include "base/numbers/datatype.h"
#include "testing/device_rank.h"
#include "testing/from_outside.h"

namespace tutti::testing {
namespace {

constexpr std::size_t KiB = 1024;

class DeviceNvls : public Device {
 protected:
  void SetUp() override {
    Device::SetUp();
    if (IsSkipped() || fake_gpu_) return;
    static const bool has_switch =
        AlgorithmOf({What::all_reduce, tuttiFloat32, tuttiSum, 5000, 0, false, 1}, {}) == "nvls";
    if (!has_switch) GTEST_SKIP() << "no switch adds between four GPUs of this machine";
  }
  // The fake GPU's machine with such a switch. Prices need the links to it, so the topology must have it.
  Environment Switched(Environment more = {}) const {
    if (!fake_gpu_) return more;
    more.insert(more.end(), {{"TUTTI_FAKE_GPU_DEVICES", "4"},
                             {"TUTTI_FAKE_GPU_MULTICAST", "1"},
                             {"TUTTI_TOPO_FILE", TUTTI_SOURCE_DIR "/topology/testdata/dgxh100.xml"}});
    return more;
  }
  // `hosts` such machines with two GPUs each.
  Environment Hosts(int hosts, Environment more = {}) const {
    more.insert(more.end(), {{"TUTTI_VIRTUAL_HOSTS", std::to_string(hosts)},
                             {"TUTTI_FAKE_GPU_DEVICES", std::to_string(2 * hosts)},
                             {"TUTTI_FAKE_GPU_MULTICAST", "1"},
                             {"TUTTI_TOPO_FILE", TUTTI_SOURCE_DIR "/topology/testdata/dgxh100.xml"}});
    return more;
  }
  // The algorithm of the call.
  static std::string AlgorithmOf(const Case& each, const Environment& environment, int ranks = 4) {
    const auto outcome = RunRanks(ranks,
                                  [&](Rank& self) {
                                    DeviceRank rank(self, 256 * KiB, "nvls");
                                    ASSERT_EQ(rank.Run(each), "");
                                    self.Note(LastOperation(rank.comm()));
                                  },
                                  {.environment = environment});
    if (outcome.front().notes.empty()) return "";
    // "all_reduce(count=5000, float32, sum) on the GPU: ring, 1 channels, ..."
    const std::string& last = outcome.front().notes.front();
    const std::string before = " on the GPU: ";
    const auto begin = last.find(before) + before.size();
    return last.substr(begin, last.find(',', begin) - begin);
  }
};

TEST_F(DeviceNvls, AddsAndMultiplies) {
  for (const auto what : {What::all_reduce, What::reduce_scatter, What::all_gather, What::broadcast, What::reduce}) {
    EXPECT_EQ(AlgorithmOf({what, tuttiFloat32, tuttiSum, 5000, 1, false, 1}, Switched()), "nvls");
  }
}

// Types and operators that the switch does not have take other ways.
TEST_F(DeviceNvls, EveryTypeAndOperator) {
  const auto cases = AllReducesOfEveryTypeAndOperator();
  RunCases({4, "nvls", true, Switched({{"TUTTI_FAKE_GPU_THREADS", "3"}})}, cases, 512 * KiB);
  RunCases({3, "nvls", false, Switched()}, cases, 512 * KiB);
}

TEST_F(DeviceNvls, EveryCollective) {
  for (const int ranks : {2, 4}) {
    for (const bool threads : {true, false}) {
      for (const char* chunk : {"0", "1024"}) {
        RunCases({ranks, "nvls", threads, Switched({{"TUTTI_CHUNK", chunk}})},
                 MixedCases(static_cast<std::uint32_t>(ranks + 70), 3 * kWhats, ranks, 256 * KiB), 256 * KiB);
      }
    }
  }
}

// A slot holds whole vectors; the memory of users does not.
TEST_F(DeviceNvls, LengthsAroundVectorsAndSlots) {
  std::vector<Case> cases;
  for (const auto type : {tuttiFloat16, tuttiInt32, tuttiFloat64}) {
    for (const std::size_t bytes : {64, 4096, 64 * 1024, 3 * 64 * 1024}) {
      for (const int beside : {-1, 0, 1}) {
        const std::size_t count = bytes / tutti::SizeOf(type) + static_cast<std::size_t>(beside);
        const auto seed = static_cast<std::uint32_t>(cases.size());
        for (const auto what : {What::all_reduce, What::reduce_scatter, What::all_gather, What::broadcast}) {
          cases.push_back({what, type, tuttiSum, count, 0, seed % 2 == 0, seed});
        }
      }
    }
  }
  RunCases({4, "nvls", true, Switched({{"TUTTI_CHANNELS", "1"}})}, cases, 1024 * KiB);
}

TEST_F(DeviceNvls, CountsWrap) {
  for (const char* from : {"4294967290", "2147483640"}) {
    RunCases({4, "nvls", true, Switched({{"TUTTI_COUNT_FROM", from}, {"TUTTI_CHUNK", "512"}})},
             MixedCases(75, 2 * kWhats, 4, 64 * KiB), 64 * KiB);
  }
}

// Each host has a switch of its own, and the ranks of one place on their hosts pass on what it has added.
TEST_F(DeviceNvls, AddsInsideEachOfSeveralHosts) {
  if (!fake_gpu_) GTEST_SKIP() << "virtual hosts with two GPUs each want the fake GPU";
  for (const auto what : {What::all_reduce, What::reduce_scatter, What::all_gather}) {
    EXPECT_EQ(AlgorithmOf({what, tuttiFloat32, tuttiSum, 5000, 1, false, 1}, Hosts(2)), "nvls");
  }
  for (const int hosts : {2, 3}) {
    for (const bool threads : {true, false}) {
      RunCases({2 * hosts, "nvls", threads, Hosts(hosts, {{"TUTTI_CHUNK", threads ? "0" : "1024"}})},
               MixedCases(static_cast<std::uint32_t>(hosts + 80), kWhats, 2 * hosts, 128 * KiB), 128 * KiB);
    }
  }
}

TEST_F(DeviceNvls, EveryTypeAndOperatorOnSeveralHosts) {
  if (!fake_gpu_) GTEST_SKIP() << "virtual hosts with two GPUs each want the fake GPU";
  RunCases({4, "nvls", true, Hosts(2)}, AllReducesOfEveryTypeAndOperator(), 512 * KiB);
}

// No switch joins a rank to itself, and none is of use where plans do not count on it.
TEST_F(DeviceNvls, IsNotMadeWhereItIsOfNoUse) {
  if (!fake_gpu_) GTEST_SKIP() << "virtual hosts with two GPUs each want the fake GPU";
  const auto why_not = [&](int ranks, Environment environment) {
    environment.emplace_back("TUTTI_DEBUG", "init");
    const auto outcome = RunRanks(ranks,
                                  [&](Rank& self) {
                                    ::testing::internal::CaptureStderr();
                                    {
                                      DeviceRank rank(self, 256 * KiB, "nvls");
                                      EXPECT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 5000}), "");
                                    }
                                    const std::string log = ::testing::internal::GetCapturedStderr();
                                    const std::string before = "no switch adds between the GPUs: ";
                                    const auto begin = log.find(before);
                                    if (begin == std::string::npos) return self.Note("no word: " + log);
                                    const auto end = log.find('\n', begin);
                                    self.Note(log.substr(begin + before.size(), end - begin - before.size()));
                                  },
                                  {.environment = environment});
    return outcome.front().notes.empty() ? "" : outcome.front().notes.front();
  };
  EXPECT_EQ(why_not(3, Hosts(3)), "rank 0 is alone on its host");
  EXPECT_EQ(why_not(3, Hosts(2)), "hosts have different numbers of ranks, or the ranks of a host are not consecutive");
  EXPECT_EQ(why_not(4, Switched({{"TUTTI_VIRTUAL_NODES", "2"}})), "nodes are parts of one host (TUTTI_VIRTUAL_NODES)");
}

// A sum compares the calls of all ranks before it reads.
TEST_F(DeviceNvls, CallsThatDoNotMatchAreNamed) {
  for (const bool threads : {false, true}) {
    RunRanks(4,
             [&](Rank& self) {
               DeviceRank rank(self, 256 * KiB, "nvls");
               ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 5000, 0, false, 1}), "");
               ExpectMismatch(rank, self.rank() == 2 ? 4999 : 5000, 5000, 4999);
             },
             {.threads = threads, .environment = Switched()});
  }
}

// Without a switch the algorithm is impossible, and a call takes another one.
TEST_F(DeviceNvls, IsNotUsedWhereThereIsNone) {
  const Case sum{What::all_reduce, tuttiFloat32, tuttiSum, 5000, 0, false, 1};
  EXPECT_NE(AlgorithmOf(sum, Switched({{"TUTTI_NVLS", "0"}})), "nvls");
  EXPECT_NE(AlgorithmOf(sum, Switched({{"TUTTI_GPU_P2P", "0"}})), "nvls");
  EXPECT_NE(AlgorithmOf(sum, Switched({{"TUTTI_DETERMINISTIC", "1"}})), "nvls");
  if (fake_gpu_) {
    EXPECT_NE(AlgorithmOf(sum, {{"TUTTI_FAKE_GPU_DEVICES", "4"}}), "nvls");
    // Its multicast objects, and its room for what is bound to them, may be taken.
    EXPECT_NE(AlgorithmOf(sum, Switched({{"TUTTI_FAKE_GPU_MULTICAST_OBJECTS", "0"}})), "nvls");
    EXPECT_NE(AlgorithmOf(sum, Switched({{"TUTTI_FAKE_GPU_MULTICAST_MB", "2"}})), "nvls");
  }
  // Its sum may overflow where the average does not.
  const Case average{What::all_reduce, tuttiFloat16, tuttiAvg, 5000, 0, false, 1};
  EXPECT_NE(AlgorithmOf(average, Switched()), "nvls");
  const Case most{What::all_reduce, tuttiFloat32, tuttiMax, 5000, 0, false, 1};
  EXPECT_NE(AlgorithmOf(most, Switched()), "nvls");
}

}  // namespace
}  // namespace tutti::testing
