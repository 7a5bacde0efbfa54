// External inputs that decide plans: tables, calibrations, topologies and forced algorithms. Errors in them reach every
// rank.
#include <fmt/format.h>
#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "testing/collective_case.h"
#include "testing/descriptors.h"
#include "testing/from_outside.h"

namespace tutti::testing {
namespace {

TEST(Selection, FollowsATable) {
  const File table(R"({"tutti_selection": 1, "ranks": 3, "nodes": 1, "rows": [{"collective": "broadcast", "entries": [
    {"from_bytes": 0, "algorithm": "binomial", "channels": 1, "protocol": "bulk", "chunk_bytes": 128},
    {"from_bytes": 100, "algorithm": "ring", "channels": 1, "protocol": "bulk", "chunk_bytes": 64}]}]})");
  RunOptions options;
  options.environment = {{"TUTTI_TABLE", table.path()}};
  RunRanks(
      3,
      [&](Rank& self) {
        const auto comm = self.Join();
        std::array<char, 200> data{};
        ASSERT_EQ(tuttiBroadcast(data.data(), data.data(), 99, tuttiInt8, 0, comm, nullptr), tuttiSuccess);
        EXPECT_NE(LastOperation(comm).find("binomial, 1 channels, chunk 128 B, bulk"), std::string::npos)
            << LastOperation(comm);
        EXPECT_NE(LastOperation(comm).find(table.path()), std::string::npos) << LastOperation(comm);
        ASSERT_EQ(tuttiBroadcast(data.data(), data.data(), 100, tuttiInt8, 0, comm, nullptr), tuttiSuccess);
        EXPECT_NE(LastOperation(comm).find("ring, 1 channels, chunk 64 B"), std::string::npos) << LastOperation(comm);
      },
      options);
}

TEST(Selection, AWrongTableIsToldToEveryRank) {
  ExpectRefusal(3, {{"TUTTI_TABLE", "/nowhere/table.json"}}, {"cannot read /nowhere/table.json"});
  ExpectRefusal(3, {{"TUTTI_TABLE", "/nowhere/\xff.json"}}, {"cannot read /nowhere/\\xff.json"});
  const File table(R"({"tutti_selection": 1, "ranks": 4, "nodes": 1, "rows": []})");
  ExpectRefusal(3, {{"TUTTI_TABLE", table.path()}}, {table.path(), "it is for 4 ranks", "has 3"});
}

TEST(Selection, AWrongCalibrationIsToldToEveryRank) {
  const File broken(R"({"tutti_calibration": 1, "costs": {"operation_us": -1}})");
  ExpectRefusal(3, {{"TUTTI_CALIBRATION", broken.path()}}, {broken.path(), "\"operation_us\" is -1"});
}

std::string Deep(const std::string& around) {
  constexpr int kDeep = 200'000;
  return fmt::format(fmt::runtime(around), std::string(kDeep, '[') + std::string(kDeep, ']'));
}

TEST(Selection, WhatIsDeepOrOfAnotherTypeIsRefusedOnEveryRank) {
  const auto refused = [](const char* setting, const std::string& text, const std::vector<std::string>& words) {
    const File file(text);
    auto all = words;
    all.push_back(file.path());
    ExpectRefusal(2, {{setting, file.path()}}, all);
  };
  const std::string table = R"({{"tutti_selection": 1, "ranks": 2, "nodes": 1, "rows": [{}]}})";
  refused("TUTTI_TABLE", Deep(table), {"deeper than 16 levels"});
  refused("TUTTI_TABLE", Deep("{}"), {"deeper than 16 levels"});
  refused("TUTTI_TABLE", fmt::format(fmt::runtime(table), R"({"collective": "all_reduce", "pairwise": "no"})"),
          {"rows[0]", "\"pairwise\" is \"no\"; it takes true or false"});
  refused("TUTTI_TABLE", fmt::format(fmt::runtime(table), R"({"collective": 7})"),
          {"\"collective\" is 7; it takes a string"});
  refused("TUTTI_CALIBRATION", Deep(R"({{"tutti_calibration": 1, "costs": {}}})"), {"deeper than 16 levels"});
  refused("TUTTI_CALIBRATION", R"({"tutti_calibration": "one", "costs": {}})", {"\"tutti_calibration\" is \"one\""});
  refused("TUTTI_CALIBRATION", R"({"tutti_calibration": 1, "costs": {"operation_us": {}}})",
          {"costs", "\"operation_us\" is an object; it takes a number"});
  refused("TUTTI_TABLE", "[\"" + std::string(3 << 20, '\x1b') + "\"]", {"not valid JSON"});
  ExpectRefusal(2, {{"TUTTI_TABLE", "/dev/zero"}}, {"/dev/zero has more than"});
}

TEST(Selection, ImpossibleForcesAreRefused) {
  ExpectRefusal(3, {{"TUTTI_ALGO", "all_to_all:ring"}}, {"ring does not support all_to_all on 3 ranks", "direct"});
}

TEST(Selection, ForcesPerCollective) {
  RunOptions options;
  options.environment = {{"TUTTI_ALGO", "broadcast:ring,ring,all_reduce:recursive"}};
  RunRanks(
      3,
      [&](Rank& self) {
        const auto comm = self.Join();
        std::array<float, 12> a{}, b{};
        ASSERT_EQ(tuttiAllReduce(a.data(), b.data(), 12, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
        EXPECT_NE(LastOperation(comm).find("recursive"), std::string::npos) << LastOperation(comm);
        ASSERT_EQ(tuttiBroadcast(a.data(), b.data(), 12, tuttiFloat32, 1, comm, nullptr), tuttiSuccess);
        EXPECT_NE(LastOperation(comm).find("ring"), std::string::npos) << LastOperation(comm);
      },
      options);
}

TEST(Topology, AWrongFileIsToldToEveryRankWithWhoHasIt) {
  const File broken("<system version=\"1\"><cpu></system>");
  ExpectRefusal(3, {{"TUTTI_TOPO_FILE", broken.path()}}, {"rank 0", broken.path() + ":1"});
}

TEST(Topology, AFileTooLargeForAllRanksIsNamed) {
  constexpr int kNics = 10'000;
  std::string text = "<system version=\"1\"><cpu numaid=\"0\">";
  for (int nic = 0; nic < kNics; ++nic) {
    text += fmt::format(
        "<pci busid=\"{:04x}:{:02x}:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><nic>"
        "<net name=\"n{}\" dev=\"{}\" speed=\"100000\"/></nic></pci>",
        nic / 256, nic % 256, nic, nic);
  }
  const File large(text + "</cpu></system>");
  ExpectRefusal(2, {{"TUTTI_TOPO_FILE", large.path()}}, {"rank 0", "TUTTI_TOPO_FILE=" + large.path(), "the limit is"});
}

TEST(Topology, IsReadAndDumped) {
  const File dumped("");
  RunOptions options;
  options.environment = {{"TUTTI_TOPO_FILE", TUTTI_SOURCE_DIR "/topology/testdata/dgxh100.xml"},
                         {"TUTTI_TOPO_DUMP_FILE", dumped.path()}};
  RunRanks(
      2, [&](Rank& self) { const auto comm = self.Join(); }, options);
  EXPECT_NE(TextOf(dumped.path()).find("mlx5_7"), std::string::npos) << TextOf(dumped.path());
}

void Pin(int processor) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  CPU_SET(processor, &mine);
  ASSERT_EQ(sched_setaffinity(0, sizeof mine, &mine), 0);
}

void CheckMixedCases(Rank& self, tuttiComm_t comm) {
  constexpr std::size_t kMostBytes = 100'000;
  constexpr std::uint32_t kSeed = 7;
  Arena arena(Arena::Kind::plain, kMostBytes);
  for (const auto& each : MixedCases(kSeed, 60, self.size(), kMostBytes)) {
    const auto wrong = RunCase(each, self.rank(), self.size(), comm, nullptr, arena);
    EXPECT_EQ(wrong, "") << each.Describe() << "; " << LastOperation(comm);
  }
}

// A topology file gives each of two processors a last-level cache of its own, and a calibration makes the way between
// the caches slow. Two ranks are pinned to each processor.
TEST(Domains, TwoLevelsWinByPriceBetweenCaches) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::vector<int> processors;
  constexpr int kMostInFile = 32;  // one word of an affinity
  for (int each = 0; each < kMostInFile; ++each) {
    if (CPU_ISSET(each, &allowed)) processors.push_back(each);
  }
  if (processors.size() < 2) GTEST_SKIP() << "fewer than two of the first 32 processors may be used";
  const std::uint32_t first = 1U << processors[0], second = 1U << processors[1];
  const File topology(
      fmt::format(R"(<system version="1"><cpu numaid="0" affinity="{:08x}" caches="{:08x};{:08x}"/></system>)",
                  first | second, first, second));
  const File slow(R"({"tutti_calibration": 1, "costs": {"operation_us": 0.25, "channel_skew_us": 0.2, "step_us": 0.06,
    "yield_us": 0.9, "bulk_slot_us": 0.3, "cores": 2, "latency_us": {"line": 0.1, "inline": 0.2, "bulk": 0.3},
    "domain_bandwidth_GBps": 0.05, "domain_latency_us": 1, "executor_bandwidth": [{"GBps": 50}], "crossing_bandwidth": [{"GBps": 20}]}})");
  RunOptions options;
  options.environment = {
      {"TUTTI_TOPO_FILE", topology.path()}, {"TUTTI_CALIBRATION", slow.path()}, {"TUTTI_DEBUG", "init"}};
  RunRanks(
      4,
      [&](Rank& self) {
        Pin(processors[static_cast<std::size_t>(self.rank()) % 2]);  // neighbours in rank are apart
        ::testing::internal::CaptureStderr();
        const auto comm = self.Join();
        const std::string log = ::testing::internal::GetCapturedStderr();
        const bool told = log.find("ranks by last-level cache: 0,2 | 1,3") != std::string::npos;
        EXPECT_EQ(told, self.rank() == 0) << log;
        std::vector<float> data(64 * 1024, 1);
        ASSERT_EQ(tuttiAllReduce(data.data(), data.data(), data.size(), tuttiFloat32, tuttiSum, comm, nullptr),
                  tuttiSuccess);
        EXPECT_NE(LastOperation(comm).find("two_level"), std::string::npos) << LastOperation(comm);
        EXPECT_EQ(data, std::vector<float>(data.size(), 4));
        CheckMixedCases(self, comm);
      },
      options);
}

// Ranks are pinned to the processors in turn, and two are on each NUMA node. The test `guest` runs this in a virtual
// machine that has two.
TEST(Domains, AreFoundOnAMachineWithTwoNodes) {
  if (!std::filesystem::exists("/sys/devices/system/node/node1/cpulist")) GTEST_SKIP() << "there is one NUMA node";
  std::vector<int> processors;  // the first of each node
  for (const char* node : {"node0", "node1"}) {
    int first = -1;
    std::ifstream(fmt::format("/sys/devices/system/node/{}/cpulist", node)) >> first;
    if (first < 0) GTEST_SKIP() << node << " has no processor";
    processors.push_back(first);
  }
  RunOptions options;
  options.environment = {{"TUTTI_DEBUG", "init"}};
  RunRanks(
      4,
      [&](Rank& self) {
        Pin(processors[static_cast<std::size_t>(self.rank()) / 2]);
        ::testing::internal::CaptureStderr();
        const auto comm = self.Join();
        const std::string log = ::testing::internal::GetCapturedStderr();
        EXPECT_EQ(log.find(": 0-1 | 2-3") != std::string::npos, self.rank() == 0) << log;
        CheckMixedCases(self, comm);
      },
      options);
}

TEST(SelectionLog, HasALineForEachCandidate) {
  RunOptions options;
  options.environment = {{"TUTTI_DEBUG", "select"}};
  RunRanks(
      2,
      [](Rank& self) {
        const auto comm = self.Join();
        ::testing::internal::CaptureStderr();
        float value = 1;
        ASSERT_EQ(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
        std::istringstream log(::testing::internal::GetCapturedStderr());
        int chosen = 0;
        for (std::string line; std::getline(log, line);) {
          EXPECT_NE(line.find(" select: "), std::string::npos) << line;
          EXPECT_EQ(line.find("\\x"), std::string::npos) << line;
          if (line.ends_with(": chosen")) ++chosen;
        }
        EXPECT_EQ(chosen, self.rank() == 0 ? 1 : 0);
      },
      options);
}

// The predicted time of a small all-reduce, in us.
float Estimate(tuttiComm_t comm) {
  float value = 1;
  tuttiSimInfo_t info = TUTTI_SIM_INFO_INITIALIZER;
  EXPECT_TRUE(Ok(tuttiGroupStart()));
  EXPECT_TRUE(Ok(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, nullptr)));
  EXPECT_TRUE(Ok(tuttiGroupSimulateEnd(&info)));
  return info.estimatedTime;
}

TEST(PricesBetweenHosts, AreMeasuredOnceAndTheSameOnAllRanks) {
  constexpr const char* kMeasured = "between hosts, measured in ";
  RunRanks(4,
           [&](Rank& self) {
             const auto log_of = [](const auto& join) {
               ::testing::internal::CaptureStderr();
               join();
               return ::testing::internal::GetCapturedStderr();
             };
             Comm comm, half;
             const auto first = log_of([&] { comm = self.Join(); });
             EXPECT_EQ(first.find(kMeasured) != std::string::npos, self.rank() == 0) << first;
             // One rank of each host.
             const auto second = log_of(
                 [&] { EXPECT_TRUE(Ok(tuttiCommSplit(comm, self.rank() % 2, self.rank(), half.address(), nullptr))); });
             EXPECT_EQ(second.find(kMeasured), std::string::npos) << second;
             for (const tuttiComm_t each : {static_cast<tuttiComm_t>(comm), static_cast<tuttiComm_t>(half)}) {
               const float own = Estimate(each);
               EXPECT_GT(own, 0);
               float least = own, most = own;
               EXPECT_TRUE(Ok(tuttiAllReduce(&own, &least, 1, tuttiFloat32, tuttiMin, each, nullptr)));
               EXPECT_TRUE(Ok(tuttiAllReduce(&own, &most, 1, tuttiFloat32, tuttiMax, each, nullptr)));
               EXPECT_EQ(least, most);
             }
           },
           {.environment = {{"TUTTI_VIRTUAL_HOSTS", "2"}, {"TUTTI_DEBUG", "init"}}});
}

// Storing past the caches pays where lines need not be read first. In place, an all-reduce has just read them.
TEST(NonTemporalStores, AreForResultsBeyondTheCachesThatOverwriteNothing) {
  constexpr std::size_t kCount = 256 * 1024;
  RunOptions options;
  options.environment = {{"TUTTI_DEBUG", "select"}, {"TUTTI_STREAM_BYTES", "1000000"}};
  RunRanks(
      2,
      [&](Rank& self) {
        const auto comm = self.Join();
        std::vector<float> input(4 * kCount, 1), output(kCount);
        const auto streams = [&](float* result, std::size_t count) {
          ::testing::internal::CaptureStderr();
          EXPECT_EQ(tuttiAllReduce(input.data(), result, count, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
          const std::string log = ::testing::internal::GetCapturedStderr();
          return log.find("; non-temporal stores") != std::string::npos;
        };
        EXPECT_TRUE(streams(output.data(), kCount));
        EXPECT_FALSE(streams(input.data(), kCount - 1));
        EXPECT_TRUE(streams(input.data(), 4 * kCount)) << "many times the cache";
      },
      options);
}

TEST(VirtualNodes, MustBeEqualOnAllRanks) {
  RunRanks(2, [&](Rank& self) {
    setenv("TUTTI_VIRTUAL_NODES", self.rank() == 0 ? "1" : "2", 1);
    tuttiComm_t comm = nullptr;
    EXPECT_EQ(tuttiCommInitRank(&comm, self.size(), self.IdOf(), self.rank()), tuttiInvalidUsage);
    EXPECT_NE(std::string(tuttiGetLastError(nullptr)).find("virtual nodes (TUTTI_VIRTUAL_NODES)"), std::string::npos);
  });
}

// One rank is alone on this machine's cores.
TEST(HelperThreads, TakePartInLongCallsWhereRanksLeaveCoresIdle) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "there is one core";
  const auto check = [](std::size_t count, const char* granted, bool take_part) {
    RunAlone(
        [=] {
          tuttiComm_t comm;
          ASSERT_TRUE(Ok(tuttiCommInitAll(&comm, 1, nullptr)));
          const std::vector<float> data(count, 3);
          std::vector<float> got(count);
          const auto before = Threads();
          ASSERT_TRUE(Ok(tuttiAllReduce(data.data(), got.data(), count, tuttiFloat32, tuttiSum, comm, nullptr)));
          EXPECT_EQ(Threads() > before, take_part) << count << " elements, OMP_NUM_THREADS=" << granted;
          EXPECT_EQ(got, data);
          ASSERT_TRUE(Ok(tuttiCommDestroy(comm)));
        },
        {.environment = {{"OMP_NUM_THREADS", granted}}});
  };
  constexpr std::size_t kLong = 8 << 20;
  check(kLong, "2", true);
  check(kLong, "1", false);
  check(1000, "2", false);
}

}  // namespace
}  // namespace tutti::testing
