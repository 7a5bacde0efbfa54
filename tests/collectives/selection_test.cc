// External inputs that decide plans: tables, calibrations, topologies and forced algorithms. Errors in them reach every
// rank.
#include <fmt/format.h>
#include <stdlib.h>

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

TEST(Topology, IsReadAndDumped) {
  const File dumped("");
  RunOptions options;
  options.environment = {{"TUTTI_TOPO_FILE", TUTTI_SOURCE_DIR "/topology/testdata/dgxh100.xml"},
                         {"TUTTI_TOPO_DUMP_FILE", dumped.path()}};
  RunRanks(
      2, [&](Rank& self) { const auto comm = self.Join(); }, options);
  EXPECT_NE(TextOf(dumped.path()).find("mlx5_7"), std::string::npos) << TextOf(dumped.path());
}

TEST(VirtualNodes, MustBeEqualOnAllRanks) {
  RunRanks(2, [&](Rank& self) {
    setenv("TUTTI_VIRTUAL_NODES", self.rank() == 0 ? "1" : "2", 1);
    tuttiComm_t comm = nullptr;
    EXPECT_EQ(tuttiCommInitRank(&comm, self.size(), self.IdOf(), self.rank()), tuttiInvalidUsage);
    EXPECT_NE(std::string(tuttiGetLastError(nullptr)).find("virtual nodes (TUTTI_VIRTUAL_NODES)"), std::string::npos);
  });
}

}  // namespace
}  // namespace tutti::testing
