// Programs from files (TUTTI_PROGRAM): they match the plain reference, serve only the calls they are for, and are
// refused on every rank, with the reason, when they are wrong.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <array>

#include "testing/collective_case.h"
#include "testing/elements.h"
#include "testing/from_outside.h"
#include "testing/surroundings.h"

namespace tutti::testing {
namespace {

std::string PathOf(const std::string& name) {
  return fmt::format("{}/algorithms/msccl/testdata/{}.xml", TUTTI_SOURCE_DIR, name);
}

tuttiAlgorithm_t LastAlgorithm(tuttiComm_t comm) {
  tuttiAlgorithm_t algorithm = tuttiAlgorithmNone;
  EXPECT_EQ(tuttiCommGetLastAlgorithm(comm, &algorithm), tuttiSuccess);
  return algorithm;
}

struct Given {
  const char* name;
  int ranks;
  What what;
  int root = 0;
  bool in_place = true;
};

constexpr std::array<Given, 11> kGiven = {{
    {"ring_all_reduce", 3, What::all_reduce},
    {"all_pairs_all_reduce", 4, What::all_reduce},
    {"hierarchical_all_reduce", 4, What::all_reduce},
    {"pair_all_reduce", 2, What::all_reduce},
    {"ring_reduce_scatter", 3, What::reduce_scatter},
    {"ring_all_gather", 4, What::all_gather},
    {"two_step_all_to_all", 4, What::alltoall},
    {"direct_all_to_all", 3, What::alltoall, 0, false},
    {"chain_broadcast", 3, What::broadcast, 1},
    {"chain_reduce", 3, What::reduce, 2},
    {"star_gather", 3, What::gather, 0},
}};

// Sizes from zero to many more chunks than slots, mostly not multiples of the program's chunk count.
std::vector<Case> CasesFor(const Given& given) {
  std::vector<Case> cases;
  for (const std::size_t count : {0, 1, 2, 3, 7, 13, 64, 97, 365, 1000, 5001, 16'385, 100'003, 262'147}) {
    if (Emulated() && count > 16'385) break;  // an emulator needs most of its time for the last two
    for (const bool in_place : {false, true}) {
      if (in_place && !given.in_place) continue;
      const auto seed = static_cast<std::uint32_t>(cases.size() * 7919 + 17);
      cases.push_back({given.what, static_cast<tuttiDataType_t>(cases.size() % tuttiNumTypes),
                       static_cast<tuttiRedOp_t>(cases.size() / 2 % tuttiNumOps), count, given.root, in_place, seed});
    }
  }
  return cases;
}

void RunGiven(const Given& given, bool threads, Environment environment) {
  RunOptions options;
  options.threads = threads;
  environment.emplace_back("TUTTI_PROGRAM", PathOf(given.name));
  options.environment = std::move(environment);
  const auto cases = CasesFor(given);
  std::size_t most = 0;
  for (const auto& each : cases) most = std::max(most, each.count * kElementBytes[each.type]);
  RunRanks(
      given.ranks,
      [&](Rank& self) {
        const auto comm = self.Join();
        ASSERT_NE(static_cast<tuttiComm_t>(comm), nullptr);
        Arena arena(Arena::Kind::plain, most * static_cast<std::size_t>(given.ranks) + 4096);
        for (const auto& each : cases) {
          ASSERT_EQ(RunCase(each, self.rank(), self.size(), comm, nullptr, arena), "");
          ASSERT_EQ(LastAlgorithm(comm), tuttiAlgorithmProgram) << LastOperation(comm);
        }
        EXPECT_NE(LastOperation(comm).find(fmt::format("{} from ", given.name)), std::string::npos);
        tuttiCounters_t counters{};
        counters.size = sizeof counters;
        ASSERT_EQ(tuttiCommGetCounters(comm, &counters), tuttiSuccess);
        EXPECT_EQ(counters.operationsByAlgorithm[tuttiAlgorithmProgram], cases.size());
      },
      options);
}

class Programs : public ::testing::TestWithParam<Given> {};

TEST_P(Programs, OfProcesses) { RunGiven(GetParam(), false, {}); }
TEST_P(Programs, OfThreads) { RunGiven(GetParam(), true, {}); }
TEST_P(Programs, InShortChunks) { RunGiven(GetParam(), false, {{"TUTTI_CHUNK", "320"}, {"TUTTI_PROTO", "bulk"}}); }
TEST_P(Programs, ByReference) { RunGiven(GetParam(), false, {{"TUTTI_CMA", "1"}, {"TUTTI_PROTO", "bulk"}}); }
TEST_P(Programs, WithHelperThreadsAndChannels) {
  RunGiven(GetParam(), false, {{"TUTTI_THREADS", "2"}, {"TUTTI_CHANNELS", "3"}, {"TUTTI_ZERO_COPY", "0"}});
}

INSTANTIATE_TEST_SUITE_P(All, Programs, ::testing::ValuesIn(kGiven),
                         [](const auto& info) { return std::string(info.param.name); });

// Runs `cases` under the setting, and checks for each whether the program served it.
void ExpectServed(int ranks, const Environment& environment, const std::vector<std::pair<Case, bool>>& cases) {
  RunOptions options;
  options.environment = environment;
  RunRanks(
      ranks,
      [&](Rank& self) {
        const auto comm = self.Join();
        ASSERT_NE(static_cast<tuttiComm_t>(comm), nullptr);
        Arena arena(Arena::Kind::plain, 1 << 20);
        for (const auto& [which, served] : cases) {
          ASSERT_EQ(RunCase(which, self.rank(), self.size(), comm, nullptr, arena), "");
          EXPECT_EQ(LastAlgorithm(comm) == tuttiAlgorithmProgram, served) << LastOperation(comm);
        }
      },
      options);
}

Case Some(What what, int root = 0) { return {what, tuttiFloat32, tuttiSum, 1001, root, false, 5}; }

TEST(Program, ServesOnlyWhatItIsFor) {
  ExpectServed(3, {{"TUTTI_PROGRAM", PathOf("ring_all_reduce")}},
               {{Some(What::all_reduce), true},
                {Some(What::barrier), false},
                {Some(What::reduce_scatter), false},
                {Some(What::all_reduce), true}});
  ExpectServed(3, {{"TUTTI_PROGRAM", PathOf("direct_all_to_all")}},
               {{Some(What::alltoall), true}, {Some(What::alltoall_v), false}});
  ExpectServed(4, {{"TUTTI_PROGRAM", PathOf("ring_all_gather")}},
               {{Some(What::all_gather), true}, {Some(What::all_gather_v), false}});
}

TEST(Program, ServesOnlyItsRoot) {
  ExpectServed(3, {{"TUTTI_PROGRAM", PathOf("chain_broadcast") + "," + PathOf("chain_reduce")}},
               {{Some(What::broadcast, 1), true},
                {Some(What::bcast, 1), true},
                {Some(What::broadcast, 0), false},
                {Some(What::reduce, 2), true},
                {Some(What::reduce, 1), false}});
}

// MSCCL_XML_FILES separates files by colons. TUTTI_PROGRAM takes precedence.
TEST(Program, IsReadByItsOtherName) {
  const auto both = PathOf("ring_all_reduce") + ":" + PathOf("direct_all_to_all");
  ExpectServed(3, {{"MSCCL_XML_FILES", both}}, {{Some(What::all_reduce), true}, {Some(What::alltoall), true}});
  ExpectServed(3, {{"MSCCL_XML_FILES", both}, {"TUTTI_PROGRAM", ""}}, {{Some(What::all_reduce), false}});
}

TEST(Program, OfOtherNumbersOfRanksIsPassedOver) {
  ExpectServed(2, {{"TUTTI_PROGRAM", PathOf("ring_all_reduce")}}, {{Some(What::all_reduce), false}});
  // Two programs for one collective, each for another number of ranks.
  ExpectServed(2, {{"TUTTI_PROGRAM", PathOf("ring_all_reduce") + "," + PathOf("pair_all_reduce")}},
               {{Some(What::all_reduce), true}});
}

TEST(Program, MayServeTheWholeAndNotItsParts) {
  RunOptions options;
  options.environment = {{"TUTTI_PROGRAM", PathOf("all_pairs_all_reduce")}};
  RunRanks(
      4,
      [](Rank& self) {
        const auto comm = self.Join();
        Comm part;
        ASSERT_TRUE(Ok(tuttiCommSplit(comm, self.rank() % 2, 0, part.address(), nullptr)));
        Arena arena(Arena::Kind::plain, 1 << 16);
        ASSERT_EQ(RunCase(Some(What::all_reduce), self.rank() / 2, 2, part, nullptr, arena), "");
        EXPECT_NE(LastAlgorithm(part), tuttiAlgorithmProgram);
        ASSERT_EQ(RunCase(Some(What::all_reduce), self.rank(), 4, comm, nullptr, arena), "");
        EXPECT_EQ(LastAlgorithm(comm), tuttiAlgorithmProgram);
      },
      options);
}

TEST(Program, IsRankZeros) {
  RunRanks(3, [](Rank& self) {
    setenv("TUTTI_PROGRAM", self.rank() == 0 ? PathOf("ring_all_reduce").c_str() : "/nowhere/program.xml", 1);
    const auto comm = self.Join();
    Arena arena(Arena::Kind::plain, 1 << 16);
    ASSERT_EQ(RunCase(Some(What::all_reduce), self.rank(), 3, comm, nullptr, arena), "");
    EXPECT_EQ(LastAlgorithm(comm), tuttiAlgorithmProgram);
  });
}

TEST(Program, GoesBeforeAlgorithmsThatAreForcedForAll) {
  ExpectServed(3, {{"TUTTI_PROGRAM", PathOf("ring_all_reduce")}, {"TUTTI_ALGO", "ring,broadcast:binomial"}},
               {{Some(What::all_reduce), true}, {Some(What::broadcast), false}});
  ExpectRefusal(3, {{"TUTTI_PROGRAM", PathOf("ring_all_reduce")}, {"TUTTI_ALGO", "all_reduce:ring"}},
                {"ring_all_reduce.xml is a program for all_reduce", "TUTTI_ALGO asks for all_reduce:ring"});
}

// The pair's program, moved to the highest connection number.
std::string OnTheLastConnection() {
  std::string text = TextOf(PathOf("pair_all_reduce"));
  const std::string first = "chan=\"0\"";
  for (auto at = text.find(first); at != std::string::npos; at = text.find(first)) {
    text.replace(at, first.size(), "chan=\"31\"");
  }
  return text;
}

// The fabric gets as many channels as the program has connections.
TEST(Program, MayUseTheLastConnectionThereIs) {
  const File last(OnTheLastConnection());
  ExpectServed(2, {{"TUTTI_PROGRAM", last.path()}}, {{Some(What::all_reduce), true}, {Some(What::all_gather), false}});
}

// The program's connections shorten all slots, so the calibration, measured with longer slots, is not used.
TEST(Program, GoesWithACalibration) {
  const File last(OnTheLastConnection());
  const File calibration(
      R"({"tutti_calibration": 1, "costs": {"operation_us": 0.3, "channel_skew_us": 0.2, "step_us": 0.1, "yield_us": 1,
    "bulk_slot_us": 0.3, "cores": 2, "latency_us": {"line": 0.1, "inline": 0.2, "bulk": 0.3},
    "executor_bandwidth": [{"GBps": 10}], "crossing_bandwidth": [{"GBps": 10}]}, "tables": [{"tutti_selection": 1,
    "ranks": 2, "nodes": 1, "rows": [{"collective": "all_gather", "entries": [{"from_bytes": 0, "algorithm": "bruck",
    "channels": 1, "protocol": "bulk", "chunk_bytes": 524288}]}]}]})");
  for (const bool program : {false, true}) {
    RunOptions options;
    options.environment = {{"TUTTI_CALIBRATION", calibration.path()}};
    if (program) options.environment.emplace_back("TUTTI_PROGRAM", last.path());
    RunRanks(
        2,
        [&](Rank& self) {
          const auto comm = self.Join();
          Arena arena(Arena::Kind::plain, 1 << 16);
          ASSERT_EQ(RunCase(Some(What::all_gather), self.rank(), 2, comm, nullptr, arena), "");
          EXPECT_EQ(LastOperation(comm).find(calibration.path()) == std::string::npos, program) << LastOperation(comm);
        },
        options);
  }
}

TEST(Program, OfOneRankIsACopy) {
  const File copy(
      "<algo name=\"copy\" nchunksperloop=\"3\" ngpus=\"1\" coll=\"allreduce\"><gpu id=\"0\"><tb id=\"0\">"
      "<step s=\"0\" type=\"cpy\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"3\"/></tb></gpu></algo>");
  ExpectServed(1, {{"TUTTI_PROGRAM", copy.path()}}, {{Some(What::all_reduce), true}});
}

TEST(Program, IsRefusedOnEveryRankWithTheReason) {
  const auto expect = [](int ranks, const std::string& paths, const std::vector<std::string>& words) {
    ExpectRefusal(ranks, {{"TUTTI_PROGRAM", paths}}, words);
  };
  expect(3, "/nowhere/program.xml", {"TUTTI_PROGRAM", "cannot read /nowhere/program.xml", "No such file"});
  expect(4, PathOf("wrong_deadlock"), {"wrong_deadlock.xml is wrong: deadlock", "rank 3 to fill a slot"});
  expect(4, PathOf("wrong_missing_contribution"), {"wrong: rank 2", "it lacks rank 3's contribution"});
  expect(4, PathOf("wrong_double_contribution"), {"wrong_double_contribution.xml:31:", "already"});
  expect(3, PathOf("wrong_collective"), {"wrong_collective.xml is wrong", "out["});
  expect(3, PathOf("ring_all_reduce") + "," + PathOf("ring_all_reduce"), {"both for all_reduce on 3 ranks"});
}

TEST(Program, ThatIsTooLongIsRefused) {
  const std::string text = TextOf(PathOf("pair_all_reduce"));
  const File longer("<!--" + std::string(1 << 20, ' ') + "-->" + text);
  ExpectRefusal(2, {{"TUTTI_PROGRAM", longer.path()}}, {longer.path(), "bytes", "the limit is 983040"});
  const File just_so("<!--" + std::string(900'000, ' ') + "-->" + text);
  ExpectServed(2, {{"TUTTI_PROGRAM", just_so.path()}}, {{Some(What::all_reduce), true}});
}

TEST(Program, MustBeDeterministicWhereThatIsAsked) {
  ExpectServed(2, {{"TUTTI_PROGRAM", PathOf("pair_all_reduce")}, {"TUTTI_DETERMINISTIC", "1"}},
               {{Some(What::all_reduce), true}});
  ExpectServed(4, {{"TUTTI_PROGRAM", PathOf("ring_all_gather")}, {"TUTTI_DETERMINISTIC", "1"}},
               {{Some(What::all_gather), true}, {Some(What::all_reduce), false}});
  ExpectRefusal(3, {{"TUTTI_PROGRAM", PathOf("ring_all_reduce")}, {"TUTTI_DETERMINISTIC", "1"}},
                {"ring_all_reduce.xml cannot be used in deterministic mode"});
}

// Refused before anything is sent, so the communicator stays usable: alone, in a group and on a stream.
TEST(Program, NotForCallsInPlaceRefusesThem) {
  RunOptions options;
  options.environment = {{"TUTTI_PROGRAM", PathOf("direct_all_to_all")}};
  RunRanks(
      3,
      [](Rank& self) {
        const auto comm = self.Join();
        std::array<float, 30> data{};
        const std::vector<std::string> words = {"in place", "direct_all_to_all", "all_to_all"};
        EXPECT_TRUE(Fails(tuttiAlltoAll(data.data(), data.data(), 10, tuttiFloat32, comm, nullptr),
                          tuttiInvalidArgument, words));
        ASSERT_TRUE(Ok(tuttiGroupStart()));
        EXPECT_TRUE(Ok(tuttiAlltoAll(data.data(), data.data(), 10, tuttiFloat32, comm, nullptr)));
        EXPECT_TRUE(Fails(tuttiGroupEnd(), tuttiInvalidArgument, words));
        tuttiStream_t stream = nullptr;
        ASSERT_TRUE(Ok(tuttiStreamCreate(&stream)));
        EXPECT_TRUE(Fails(tuttiAlltoAll(data.data(), data.data(), 10, tuttiFloat32, comm, stream), tuttiInvalidArgument,
                          words));
        Arena arena(Arena::Kind::plain, 1 << 16);
        ASSERT_EQ(RunCase(Some(What::alltoall), self.rank(), 3, comm, stream, arena), "");
        EXPECT_EQ(LastAlgorithm(comm), tuttiAlgorithmProgram);
        EXPECT_TRUE(Ok(tuttiStreamDestroy(stream)));
      },
      options);
}

}  // namespace
}  // namespace tutti::testing
