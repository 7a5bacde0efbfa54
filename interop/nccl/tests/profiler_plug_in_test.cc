// Profiler plug-ins of NCCL get their events, with the parents that NCCL gives them: every version of the interface.
#include <thread>

#include "interop/nccl/tests/plug_in_testing.h"

namespace tutti::nccl::testing {
namespace {

constexpr int kGroup = 1, kCollective = 2, kMessage = 4, kGroupCall = 256, kCollectiveCall = 512, kMessageCall = 1024;
constexpr int kAll = kGroup | kCollective | kMessage | kGroupCall | kCollectiveCall | kMessageCall;

std::string PlugIn(int version) { return TUTTI_PROFILERS + std::to_string(version) + ".so"; }

// What rank 0's plug-in of two ranks tells while they run the body.
std::string Told(int version, int mask, const std::function<void(Rank&, ncclComm_t)>& body, Environment more = {}) {
  const Scratch told;
  Environment environment = {{"NCCL_PROFILER_PLUGIN", PlugIn(version)},
                             {"TEST_PROFILER_MASK", std::to_string(mask)},
                             {"TEST_PROFILER_TOLD", told.path()},
                             {"TUTTI_ALGO", "ring"}};
  environment.insert(environment.end(), more.begin(), more.end());
  RunRanks(2,
           [&](Rank& self) {
             if (self.rank() != 0) setenv("TEST_PROFILER_TOLD", "/dev/null", 1);
             ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
             config.commName = "named";
             const Comm comm = Join(self, &config);
             body(self, comm);
           },
           {.environment = std::move(environment)});
  return told.content();
}

void AddTwice(Rank&, ncclComm_t comm) {
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Sum(comm, 1), 2);
}

TEST(NcclProfiler, ACallIsAGroupOfItsOwn) {
  for (const int version : {5, 6}) {
    EXPECT_EQ(Told(version, kAll, AddTwice),
              "init known named nodes 1 nranks 2 rank 0\n"
              "1 group call depth 1\n"
              "state 23 of 1\n"
              "2 call of AllReduce in 1: count 1 ncclFloat64 root 0\n"
              "3 group\n"
              "4 collective AllReduce #0 in 2, group 3: rank 0 count 1 ncclFloat64 root 0 channels 1 RING/LL128\n"
              "stop 4\n"
              "stop 2\n"
              "state 24 of 1\n"
              "stop 1\n"
              "stop 3\n"
              "5 group call depth 1\n"
              "state 23 of 5\n"
              "6 call of AllReduce in 5: count 1 ncclFloat64 root 0\n"
              "7 group\n"
              "8 collective AllReduce #1 in 6, group 7: rank 0 count 1 ncclFloat64 root 0 channels 1 RING/LL128\n"
              "stop 8\n"
              "stop 6\n"
              "state 24 of 5\n"
              "stop 5\n"
              "stop 7\n"
              "end\n");
  }
}

TEST(NcclProfiler, BeforeVersion5OnlyCollectivesAndTheirGroupAreKnown) {
  EXPECT_EQ(Told(4, kAll, [](Rank&, ncclComm_t comm) { EXPECT_EQ(Sum(comm, 1), 2); }),
            "init known named nodes 1 nranks 2 rank 0\n"
            "1 group\n"
            "2 collective AllReduce #0 in 1: rank 0 count 1 ncclFloat64 root 0 channels 1 RING/LL128\n"
            "stop 2\n"
            "stop 1\n"
            "end\n");
  for (const int version : {2, 3}) {
    const auto told = Told(version, kAll, AddTwice);
    EXPECT_TRUE(Has(told,
                    "init\n1 group\n2 collective AllReduce #0 in 1: rank 0 count 1 ncclFloat64 root 0 channels 1 "
                    "RING/LL128\nof named known\n"))
        << told;
    EXPECT_TRUE(Has(told, "4 collective AllReduce #1 in 3")) << told;
    EXPECT_EQ(Has(told, "traffic 16\n"), version == 2) << told;
  }
  EXPECT_TRUE(Has(Told(1, kAll, AddTwice),
                  "2 collective 4 #0 in 1: rank 0 count 1 8 root 0 channels 1 1/1\nof named known\ntraffic 16\n"));
}

void Exchange(Rank& self, ncclComm_t comm) {
  int mine = self.rank(), theirs = -1;
  const int peer = 1 - self.rank();
  EXPECT_TRUE(Ok(ncclGroupStart()));
  EXPECT_TRUE(Ok(ncclGroupStart()));
  EXPECT_TRUE(Ok(ncclSend(&mine, 1, ncclInt, peer, comm, nullptr)));
  EXPECT_TRUE(Ok(ncclRecv(&theirs, 1, ncclInt, peer, comm, nullptr)));
  EXPECT_TRUE(Ok(ncclGroupEnd()));
  double value = 1;
  EXPECT_TRUE(Ok(ncclBroadcast(&value, &value, 1, ncclDouble, 1, comm, nullptr)));
  EXPECT_TRUE(Ok(ncclGroupEnd()));
  EXPECT_EQ(theirs, peer);
}

TEST(NcclProfiler, AGroupsCallsShareItsEvents) {
  const auto told = Told(6, kAll, Exchange);
  EXPECT_TRUE(Has(told,
                  "1 group call depth 3\n"
                  "state 23 of 1\n"
                  "2 call of Send in 1: count 1 ncclInt32\n"
                  "stop 2\n"))
      << told;
  EXPECT_TRUE(Has(told, " call of Recv in 1: count 1 ncclInt32\n")) << told;
  EXPECT_TRUE(Has(told, " call of Broadcast in 1: count 1 ncclFloat64 root 1\n")) << told;
  EXPECT_EQ(Count(told, " group\n"), 1) << told;
  EXPECT_EQ(Count(told, "group call"), 1) << told;
  EXPECT_TRUE(Has(told, " message Send in 2, group ")) << told;
  EXPECT_TRUE(Has(told, ": rank 0 count 1 ncclInt32 peer 1\n")) << told;
  EXPECT_TRUE(Has(told, " collective Broadcast #0 in ")) << told;
  // The group's end begins before its collectives and messages do.
  EXPECT_LT(told.find("state 24 of 1\n"), told.find(" message Send")) << told;
  EXPECT_GT(told.find("\nstop 1\n"), told.find(" message Send")) << told;
  EXPECT_EQ(Count(told, "stop "), 8) << "every event ends: " << told;
  EXPECT_FALSE(Has(told, "stop 0")) << told;
}

TEST(NcclProfiler, OnlyWantedKindsAndTheirParentsCome) {
  EXPECT_EQ(Told(6, 0, AddTwice), "init known named nodes 1 nranks 2 rank 0\nend\n");
  const auto calls = Told(6, kCollectiveCall, AddTwice);
  EXPECT_EQ(Count(calls, " call of AllReduce in 1"), 1) << calls;
  EXPECT_FALSE(Has(calls, " collective ")) << calls;
  const auto groups = Told(6, kGroupCall, AddTwice);
  EXPECT_EQ(Count(groups, "group call"), 2) << groups;
  EXPECT_FALSE(Has(groups, "call of")) << groups;
}

TEST(NcclProfiler, EventsOfACallThatFailsEnd) {
  const auto told = Told(6, kAll, [](Rank& self, ncclComm_t comm) {
    double value = 1;
    // The ranks' calls do not match.
    const auto result = self.rank() == 0 ? ncclAllReduce(&value, &value, 1, ncclDouble, ncclSum, comm, nullptr)
                                         : ncclBroadcast(&value, &value, 1, ncclDouble, 0, comm, nullptr);
    if (self.rank() == 0) {
      EXPECT_EQ(result, ncclInvalidUsage);
    }
    self.Meet();
  });
  EXPECT_EQ(Count(told, "\nstop "), 4) << told;
  // A refused call has no events.
  EXPECT_EQ(Told(6, kAll,
                 [](Rank&, ncclComm_t comm) {
                   EXPECT_NE(ncclAllReduce(nullptr, nullptr, 1, ncclFloat, ncclSum, comm, nullptr), ncclSuccess);
                 }),
            "init known named nodes 1 nranks 2 rank 0\nend\n");
}

TEST(NcclProfiler, AnErrorOfInitLeavesTheCommunicatorWithoutOne) {
  EXPECT_EQ(Told(6, kAll, AddTwice, {{"TEST_PROFILER_INIT", "3"}}), "init known named nodes 1 nranks 2 rank 0\n");
  EXPECT_EQ(Told(1, kAll, AddTwice, {{"TEST_PROFILER_INIT", "3"}}), "init\n");
  EXPECT_EQ(Told(6, kAll, AddTwice, {{"NCCL_PROFILER_PLUGIN", "none"}}), "");
}

TEST(NcclProfiler, WithoutAUsableLibraryThereIsNone) {
  const Scratch log;
  RunAlone([] { EXPECT_EQ(Sum(Alone(), 3), 3); },
           {.environment = {
                {"NCCL_PROFILER_PLUGIN", "libm.so.6"}, {"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_FILE", log.path()}}});
  EXPECT_TRUE(Has(log.content(), "There is no usable version in external profiler plugin libm.so.6")) << log.content();
}

// A communicator that does not block runs its calls in a thread of its own.
TEST(NcclProfiler, ACallMayReturnBeforeItsCollectiveEnds) {
  const Scratch told;
  RunRanks(2,
           [](Rank& self) {
             if (self.rank() != 0) setenv("TEST_PROFILER_TOLD", "/dev/null", 1);
             ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
             config.blocking = 0;
             ncclComm_t comm = nullptr;
             const auto made = ncclCommInitRankConfig(&comm, 2, IdOf(self), self.rank(), &config);
             EXPECT_TRUE(made == ncclSuccess || made == ncclInProgress);
             EXPECT_EQ(Await(comm), ncclSuccess);
             double value = 1;
             const auto called = ncclAllReduce(&value, &value, 1, ncclDouble, ncclSum, comm, nullptr);
             EXPECT_TRUE(called == ncclSuccess || called == ncclInProgress);
             EXPECT_EQ(Await(comm), ncclSuccess);
             EXPECT_EQ(value, 2);
             EXPECT_TRUE(Ok(ncclCommFinalize(comm)) || Await(comm) == ncclSuccess);
             EXPECT_EQ(Await(comm), ncclSuccess);
             EXPECT_TRUE(Ok(ncclCommDestroy(comm)));
           },
           {.environment = {{"NCCL_PROFILER_PLUGIN", PlugIn(6)},
                            {"TEST_PROFILER_MASK", std::to_string(kAll)},
                            {"TEST_PROFILER_TOLD", told.path()}}});
  const auto text = told.content();
  EXPECT_TRUE(Has(text, " collective AllReduce #0 in 2, group ")) << text;
  EXPECT_EQ(Count(text, "\nstop "), 4) << text;
  EXPECT_TRUE(text.ends_with("end\n")) << text;
}

// NCCL's own example, which writes a trace (tests/example_profiler.sh builds it).
TEST(NcclProfiler, NcclsExampleWritesATrace) {
  const char* const example = std::getenv("TUTTI_NCCL_EXAMPLE_PROFILER");
  if (example == nullptr) GTEST_SKIP() << "NCCL's source is not here: see tests/example_profiler.sh";
  std::string folder = (std::filesystem::temp_directory_path() / "nccl_trace_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  RunRanks(2,
           [](Rank& self) {
             const Comm comm = Join(self);
             AddTwice(self, comm);
             Exchange(self, comm);
           },
           {.environment = {{"NCCL_PROFILER_PLUGIN", example},
                            {"NCCL_PROFILE_EVENT_MASK", std::to_string(kAll)},
                            {"NCCL_PROFILE_DUMP_FILE", folder + "/trace"}}});
  int traces = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto trace = ContentOf(entry.path().string());
    ++traces;
    EXPECT_EQ(Count(trace, "\"name\": \"AllReduce\", \"cat\": \"COLL\", \"ph\": \"b\""), 2) << trace;
    EXPECT_EQ(Count(trace, "\"name\": \"AllReduce\", \"cat\": \"COLL_API\", \"ph\": \"b\""), 2) << trace;
    EXPECT_EQ(Count(trace, "\"cat\": \"GROUP_API\", \"ph\": \"b\""), 3) << trace;
    EXPECT_EQ(Count(trace, "\"name\": \"Send\", \"cat\": \"P2P\", \"ph\": \"b\""), 1) << trace;
    EXPECT_EQ(Count(trace, "\"ph\": \"b\""), Count(trace, "\"ph\": \"e\"")) << trace;
  }
  EXPECT_EQ(traces, 2);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tutti::nccl::testing
