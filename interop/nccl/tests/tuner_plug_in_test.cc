// Tuner plug-ins of NCCL choose among Tutti's plans: every version of the interface, and answers of all kinds.
#include "interop/nccl/tests/plug_in_testing.h"

namespace tutti::nccl::testing {
namespace {

std::string PlugIn(int version) { return TUTTI_TUNERS + std::to_string(version) + ".so"; }

struct Ran {
  std::string plan;  // of an all-reduce of 8 bytes
  std::string told;  // by the plug-ins
  std::string log;   // of rank 0
};

// Two ranks add up with that plug-in and that environment.
Ran With(int version, Environment environment) {
  const Scratch told, log;
  environment.emplace_back("NCCL_TUNER_PLUGIN", PlugIn(version));
  environment.emplace_back("TEST_TUNER_TOLD", told.path());
  environment.emplace_back("NCCL_DEBUG", "INFO");
  environment.emplace_back("NCCL_DEBUG_SUBSYS", "TUNING");
  environment.emplace_back("NCCL_DEBUG_FILE", log.path());
  Ran ran;
  const auto outcomes = RunRanks(2,
                                 [](Rank& self) {
                                   if (self.rank() != 0) setenv("NCCL_DEBUG_FILE", "/dev/null", 1);
                                   const Comm comm = Join(self);
                                   for (int i = 0; i < 3; ++i) EXPECT_EQ(Sum(comm, 1), 2);
                                   if (self.rank() == 0) self.Note(LastPlan(comm));
                                 },
                                 {.environment = std::move(environment)});
  if (!outcomes[0].notes.empty()) ran.plan = outcomes[0].notes[0];
  ran.told = ContentOf(told.path());
  ran.log = ContentOf(log.path());
  return ran;
}

TEST(NcclTuner, EveryVersionChooses) {
  for (const int version : {2, 3, 4, 5}) {
    const auto ring = With(version, {{"TEST_TUNER_CHOICE", "1,1,0"}});
    const auto name = "Test (v" + std::to_string(version) + ")";
    EXPECT_TRUE(Has(ring.plan, ": ring, ") && Has(ring.plan, ", inline")) << ring.plan;
    EXPECT_TRUE(Has(ring.plan, "chosen by the tuner plug-in " + name)) << ring.plan;
    EXPECT_EQ(Count(ring.told, "init 2 ranks 1 nodes\n"), 2) << ring.told;
    EXPECT_EQ(Count(ring.told, "end\n"), 2) << ring.told;
    EXPECT_EQ(Count(ring.told, "function 4 bytes 8:"), 2) << "each rank asks once for a plan: " << ring.told;
    EXPECT_TRUE(Has(ring.log, "TUNER/Plugin: Using " + name.substr(0, 4) + " (v")) << ring.log;
    EXPECT_TRUE(Has(ring.log, "the test's tuner has 2 ranks")) << ring.log;
    EXPECT_TRUE(Has(ring.log, "AllReduce: 8 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..0}")) << ring.log;

    const auto tree = With(version, {{"TEST_TUNER_CHOICE", "0,2,0"}});
    EXPECT_TRUE(Has(tree.plan, ": double_binary_tree, ") && Has(tree.plan, ", bulk")) << tree.plan;
  }
}

TEST(NcclTuner, SeesTuttisPlansInNcclsTable) {
  const auto ran = With(5, {});
  EXPECT_TRUE(Has(ran.told, "function 4 bytes 8: 0/0 0/1 0/2 1/1 1/2 6/0 6/1 6/2\n"))
      << ran.told;  // trees, rings and PAT
  EXPECT_TRUE(Has(ran.told, "communicator known, 1 domains of 2 to 2")) << ran.told;
  EXPECT_FALSE(Has(ran.plan, "tuner")) << "a table that is left as it was is no choice: " << ran.plan;
  EXPECT_TRUE(Has(With(2, {}).told, "function 4 bytes 8: collnet 0 nvls 0 operations 1")) << ran.told;
}

TEST(NcclTuner, GetsTheLargerBuffersSize) {
  const Scratch told;
  RunRanks(2,
           [](Rank& self) {
             const Comm comm = Join(self);
             std::array<double, 4> from{}, to{};
             EXPECT_TRUE(Ok(ncclAllGather(from.data(), to.data(), 2, ncclDouble, comm, nullptr)));
             EXPECT_TRUE(Ok(ncclReduceScatter(from.data(), to.data(), 2, ncclDouble, ncclSum, comm, nullptr)));
             EXPECT_TRUE(Ok(ncclBroadcast(from.data(), to.data(), 2, ncclDouble, 0, comm, nullptr)));
             EXPECT_TRUE(Ok(ncclAlltoAll(from.data(), to.data(), 2, ncclDouble, comm, nullptr)));
           },
           {.environment = {{"NCCL_TUNER_PLUGIN", PlugIn(4)}, {"TEST_TUNER_TOLD", told.path()}}});
  const auto text = ContentOf(told.path());
  EXPECT_EQ(Count(text, "function 2 bytes 32:"), 2) << text;
  EXPECT_EQ(Count(text, "function 3 bytes 32:"), 2) << text;
  EXPECT_EQ(Count(text, "function 0 bytes 16:"), 2) << text;
  EXPECT_EQ(Count(text, "function "), 6) << "NCCL tunes five functions: " << text;
}

TEST(NcclTuner, ItsChannelsAreFollowedWherePossible) {
  const Environment threads = {{"TUTTI_THREADS", "4"}, {"TEST_TUNER_CHOICE", "1,2,4"}};
  const auto possible = [&] {
    auto environment = threads;
    const Scratch log;
    std::string plan;
    environment.emplace_back("NCCL_TUNER_PLUGIN", PlugIn(5));
    const auto outcomes = RunRanks(
        2,
        [](Rank& self) {
          const Comm comm = Join(self);
          std::vector<float> data(65536, 1);
          EXPECT_TRUE(Ok(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum, comm, nullptr)));
          EXPECT_EQ(data.back(), 2);
          if (self.rank() == 0) self.Note(LastPlan(comm));
        },
        {.environment = std::move(environment)});
    return outcomes[0].notes.at(0);
  }();
  EXPECT_TRUE(Has(possible, ": ring, 4 channels") && Has(possible, "Test (v5)")) << possible;

  const auto impossible = With(5, {{"TEST_TUNER_CHOICE", "1,2,3"}});
  EXPECT_TRUE(Has(impossible.plan, ": ring, 1 channel")) << impossible.plan;
  EXPECT_EQ(Count(impossible.log, "asked for 3 channels for AllReduce, where there are plans with 1"), 1)
      << impossible.log;
}

// The plug-in's answer is ignored, with one line in the log.
void Ignored(int version, Environment environment, const std::string& line) {
  const auto ran = With(version, std::move(environment));
  EXPECT_FALSE(Has(ran.plan, "tuner")) << ran.plan;
  EXPECT_FALSE(ran.plan.empty());
  EXPECT_EQ(Count(ran.log, line), 1) << ran.log;
}

TEST(NcclTuner, NonsenseIsIgnoredWithOneLine) {
  for (const int version : {2, 3, 4, 5}) {
    Ignored(version, {{"TEST_TUNER_CHOICE", "4,2,0"}},
            "chose NVLS/SIMPLE for AllReduce, which Tutti does not have here");
    Ignored(version, {{"TEST_TUNER_CHOICE", "1,0,0"}, {"TEST_TUNER_RESULT", "3"}}, "returned 3 for AllReduce");
  }
  Ignored(2, {{"TEST_TUNER_CHOICE", "77,-5,0"}}, "chose algorithm 77 and protocol -5 for AllReduce");
  Ignored(5, {{"TEST_TUNER_TABLE", "nan"}}, "chose algorithm -1 and protocol -1 for AllReduce");
  Ignored(5, {{"TEST_TUNER_TABLE", "none"}}, "chose algorithm -1 and protocol -1 for AllReduce");
  Ignored(5, {{"TEST_TUNER_CHOICE", "-1,-1,-7"}}, "asked for -7 channels");
}

TEST(NcclTuner, AnErrorOfInitIsTheCommunicators) {
  for (const int version : {2, 5}) {
    RunAlone(
        [] {
          ncclUniqueId id;
          ncclComm_t comm = nullptr;
          ASSERT_TRUE(Ok(ncclGetUniqueId(&id)));
          EXPECT_TRUE(Fails(ncclCommInitRank(&comm, 1, id, 0), ncclSystemError, "the tuner plug-in Test"));
          EXPECT_EQ(comm, nullptr);
        },
        {.environment = {{"NCCL_TUNER_PLUGIN", PlugIn(version)}, {"TEST_TUNER_INIT", "2"}}});
  }
}

TEST(NcclTuner, WithoutAUsableLibraryThereIsNone) {
  const auto with = [](const std::string& name) {
    const Scratch log;
    RunAlone([] { EXPECT_EQ(Sum(Alone(), 3), 3); }, {.environment = {{"NCCL_TUNER_PLUGIN", name},
                                                                     {"NCCL_DEBUG", "INFO"},
                                                                     {"NCCL_DEBUG_SUBSYS", "TUNING"},
                                                                     {"NCCL_DEBUG_FILE", log.path()}}});
    return ContentOf(log.path());
  };
  EXPECT_TRUE(Has(with("/nowhere/at/all.so"), "TUNER/Plugin: /nowhere/at/all.so: "));
  const auto named = with("absent");
  EXPECT_TRUE(Has(named, "TUNER/Plugin: absent: ") && Has(named, "libnccl-tuner-absent.so")) << named;
  EXPECT_TRUE(Has(with("libm.so.6"), "is unsupported"));
  EXPECT_FALSE(Has(with("none"), "TUNER/Plugin"));
}

// Rank 1 has another choice than rank 0: neither hangs, and both learn why.
TEST(NcclTuner, RanksThatChooseDifferentlyAreTold) {
  RunRanks(2,
           [](Rank& self) {
             setenv("TEST_TUNER_CHOICE", self.rank() == 0 ? "1,2,0" : "0,0,0", 1);
             Comm comm = Join(self);
             double value = 1;
             const auto result = ncclAllReduce(&value, &value, 1, ncclDouble, ncclSum, comm, nullptr);
             EXPECT_TRUE(Fails(result, ncclInvalidUsage, "tuner plug-ins chose differently"));
             self.Meet();
             EXPECT_TRUE(Ok(ncclCommAbort(comm.Release())));
           },
           {.environment = {{"NCCL_TUNER_PLUGIN", PlugIn(5)}}});
}

TEST(NcclTuner, RanksWithAndWithoutOneAreTold) {
  RunRanks(2,
           [](Rank& self) {
             if (self.rank() == 0) setenv("NCCL_TUNER_PLUGIN", PlugIn(5).c_str(), 1);
             ncclComm_t comm = nullptr;
             EXPECT_TRUE(Fails(ncclCommInitRank(&comm, 2, IdOf(self), self.rank()), ncclInvalidUsage,
                               "ranks disagree on the tuner plug-in"));
           },
           {.environment = {{"NCCL_TUNER_PLUGIN", "none"}}});
}

// NCCL's own example, which reads a table of choices (tests/example_tuner.sh builds it).
TEST(NcclTuner, NcclsExampleChooses) {
  const char* const example = std::getenv("TUTTI_NCCL_EXAMPLE_TUNER");
  if (example == nullptr) GTEST_SKIP() << "NCCL's source is not here: see tests/example_tuner.sh";
  const Scratch table, log;
  std::ofstream(table.path()) << "allreduce,0,100,ring,ll128,1,-1,-1\n"
                              << "allreduce,101,200000,tree,simple,-1,1,2\n"
                              << "allreduce,200001,4294967295,nvls,simple,-1,-1,-1\n";
  const auto outcomes =
      RunRanks(2,
               [](Rank& self) {
                 if (self.rank() != 0) setenv("NCCL_DEBUG_FILE", "/dev/null", 1);
                 const Comm comm = Join(self);
                 for (const std::size_t count : {2, 1000, 100000}) {
                   std::vector<float> data(count, 1);
                   EXPECT_TRUE(Ok(ncclAllReduce(data.data(), data.data(), count, ncclFloat, ncclSum, comm, nullptr)));
                   EXPECT_EQ(data.back(), 2);
                   if (self.rank() == 0) self.Note(LastPlan(comm));
                 }
               },
               {.environment = {{"NCCL_TUNER_PLUGIN", example},
                                {"NCCL_TUNER_CONFIG_FILE", table.path()},
                                {"NCCL_DEBUG", "INFO"},
                                {"NCCL_DEBUG_SUBSYS", "TUNING"},
                                {"NCCL_DEBUG_FILE", log.path()}}});
  const auto& plans = outcomes[0].notes;
  ASSERT_EQ(plans.size(), 3U);
  const auto text = ContentOf(log.path());
  EXPECT_TRUE(Has(plans[0], ": ring, ") && Has(plans[0], "tuner plug-in Example (v5)")) << plans[0] << text;
  EXPECT_TRUE(Has(plans[1], ": double_binary_tree, ") && Has(plans[1], "Example (v5)")) << plans[1] << text;
  EXPECT_FALSE(Has(plans[2], "Example")) << "there is no NVLS here: " << plans[2];
  EXPECT_TRUE(Has(text, "TUNER/ExamplePlugin: Applied config for collType=allreduce")) << text;
}

}  // namespace
}  // namespace tutti::nccl::testing
