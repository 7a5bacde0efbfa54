#include "tools/simulator/simulated.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <set>

#include "algorithms/builders/records.h"
#include "algorithms/msccl/program.h"
#include "base/error.h"
#include "selection/cost_model/host_machine.h"
#include "selection/cost_model/machine_of_system.h"
#include "selection/tuner/explain.h"
#include "tools/commands.h"
#include "topology/detect/hwloc_host.h"
#include "topology/xml/xml.h"

namespace tutti::tools {
namespace {

cost_model::Machine Dgx(int nodes) {
  return cost_model::MachineOfSystem(xml::ReadTopologyFile("topology/testdata/dgxh100.xml").system, nodes);
}

TEST(Fastest, IsNoSlowerThanAnyCandidate) {
  const cost_model::Machine machine = Dgx(1);
  const Wish wish{schedule::Collective::all_gather, {}, 1 << 20};
  const auto candidates = Candidates({machine}, wish);
  const double fastest = Fastest({machine}, wish).result.duration_us;
  EXPECT_GT(candidates.size(), 10u);
  for (const simulator::SimulatedCall& call : candidates)
    EXPECT_LE(fastest, tools::Run(machine, call, NodesStandIn::never).result.duration_us);
}

TEST(Fastest, DoesAsItIsTold) {
  const cost_model::Machine machine = Dgx(2);
  const Wish wish{
      schedule::Collective::all_reduce, {tuttiAlgorithmDoubleBinaryTree}, 1 << 20, 8, ring::Protocol::inlined, 32'768};
  const auto candidates = Candidates({machine}, wish);
  ASSERT_EQ(candidates.size(), 1u);
  EXPECT_EQ(candidates[0].algorithm, tuttiAlgorithmDoubleBinaryTree);
  EXPECT_EQ(candidates[0].channels, 4);  // pairs of trees
  EXPECT_EQ(candidates[0].config, (schedule::ProtocolConfig{ring::Protocol::inlined, 32'768}));
}

// They are shorter than NCCL's. Between hosts there are bulk slots alone, which carry chunks of packets and lines, too.
TEST(Conditions, OfTheLibraryHaveItsSlots) {
  const auto one = ConditionsOf({Dgx(1), true, 0, true}), several = ConditionsOf({Dgx(8), true, 0, true});
  EXPECT_TRUE(one.gpu_slots.lines && one.gpu_slots.inlines && one.in_switch);
  EXPECT_LT(one.gpu_slots.bulk, ConditionsOf({Dgx(1)}).bulk_capacity);
  EXPECT_TRUE(several.gpu_slots.lines && several.gpu_slots.inlines && several.in_switch);
  EXPECT_LE(several.gpu_slots.inlined, several.gpu_slots.bulk);
  EXPECT_EQ(several.gpu_slots.bulk, ConditionsOf({Dgx(32), true, 0, true}).gpu_slots.bulk);
}

// A kernel sums the slots of 62 ranks at most.
TEST(Conditions, OfTheLibraryHaveNoSwitchForTooManyRanks) {
  const auto machine = [](int ranks) {
    return cost_model::MachineOfSystem(xml::ReadTopologyFile("topology/testdata/gb200_nvl72.xml").system, 1, ranks);
  };
  EXPECT_TRUE(ConditionsOf({machine(62), true, 0, true}).in_switch);
  EXPECT_FALSE(ConditionsOf({machine(63), true, 0, true}).in_switch);
  EXPECT_TRUE(ConditionsOf({machine(72)}).in_switch) << "NCCL's";
}

TEST(Candidates, HaveNoBaselines) {
  for (const simulator::SimulatedCall& call : Candidates({Dgx(1)}, {schedule::Collective::all_reduce, {}, 1024})) {
    EXPECT_FALSE(builders::RecordOf(call.algorithm).baseline);
  }
}

TEST(Candidates, AreNotFarFromTheCheapest) {
  const Target target{Dgx(2)};
  std::set<tuttiAlgorithm_t> left;
  for (const simulator::SimulatedCall& call : Candidates(target, {schedule::Collective::all_reduce, {}, 256 << 20}))
    left.insert(call.algorithm);
  EXPECT_TRUE(left.contains(tuttiAlgorithmTwoLevel));
  EXPECT_TRUE(left.contains(tuttiAlgorithmRing));
  EXPECT_FALSE(left.contains(tuttiAlgorithmRecursive)) << "each of its steps leaves most links idle";
}

// The formula and the events model the same machine. Only the events include contention on links and slots that run
// out, so the formula may be lower: where every channel has one chunk, it takes the larger of two times that follow each
// other in part (a broadcast by binomial trees in 32 channels: 0.47).
TEST(Candidates, ArePricedLikeTheyAreSimulated) {
  for (const int nodes : {1, 2}) {
    const Target target{Dgx(nodes)};
    const cost_model::TuningContext tuning = ConditionsOf(target);
    tuner::Tuner tuner(target.machine, tuning);
    for (const auto collective :
         {schedule::Collective::all_reduce, schedule::Collective::all_gather, schedule::Collective::broadcast}) {
      for (const std::size_t bytes : {std::size_t{64} << 10, std::size_t{16} << 20}) {
        for (const tuner::Estimate& priced : tuner.Compare({collective}, bytes)) {
          if (!priced.why_not.empty()) continue;
          const auto& [algorithm, channels, config] = priced.candidate;
          const double us =
              tools::Run(target.machine, {collective, algorithm, bytes, channels, config}, NodesStandIn::never)
                  .result.duration_us;
          EXPECT_GT(priced.us, 0.45 * us)
              << schedule::NameOf(collective) << ' ' << tuner::ToString(priced.candidate) << ' ' << bytes;
          EXPECT_LT(priced.us, 1.3 * us) << schedule::NameOf(collective) << ' ' << tuner::ToString(priced.candidate)
                                         << ' ' << bytes;
        }
      }
    }
  }
}

TEST(Run, FoldsOnlyLargeMachines) {
  const simulator::SimulatedCall call{
      schedule::Collective::all_reduce, tuttiAlgorithmRing, 1 << 20, 1, {ring::Protocol::bulk, 1 << 17}};
  EXPECT_FALSE(tools::Run(Dgx(4), call, NodesStandIn::beyond_64_ranks).node_classes.has_value());
  EXPECT_EQ(tools::Run(Dgx(64), call, NodesStandIn::beyond_64_ranks).node_classes->classes(), 1);
  EXPECT_FALSE(tools::Run(Dgx(64), call, NodesStandIn::never).node_classes.has_value());
}

// Two ranks on one core cost yields; ranks with a core each do not.
TEST(Run, KnowsHosts) {
  const cost_model::Machine shared =
      cost_model::HostMachine(cost_model::DefaultHostCosts(1), schedule::ArrangeEvenly(2, 1));
  const cost_model::Machine apart =
      cost_model::HostMachine(cost_model::DefaultHostCosts(2), schedule::ArrangeEvenly(2, 1));
  const Wish wish{schedule::Collective::all_reduce, {}, 8};
  EXPECT_GT(Fastest({shared, false}, wish).result.duration_us, Fastest({apart, false}, wish).result.duration_us);
}

// Hosts of processes joined by TCP: all traffic uses their links, and on one machine they share its cores.
TEST(Target, IsHostsOfProcesses) {
  TargetOptions options;
  options.nodes = 4;
  options.ranks = 16;
  options.cores = 2;
  options.network = 1'000;
  options.calibration = "none";
  const Target target = TargetOf(options);
  EXPECT_EQ(target.machine.rank_layout().nodes(), 4);
  EXPECT_FALSE(ConditionsOf(target).one_host);
  constexpr std::size_t kBytes = 16 << 20;
  constexpr double kBytesPerUs = 125;
  const auto two_level = Fastest(target, {schedule::Collective::all_reduce, {tuttiAlgorithmTwoLevel}, kBytes});
  const auto ring = Fastest(target, {schedule::Collective::all_reduce, {tuttiAlgorithmRing}, kBytes});
  EXPECT_GT(two_level.result.duration_us, 2 * 3.0 / 4 * kBytes / kBytesPerUs);
  EXPECT_GT(ring.result.duration_us, two_level.result.duration_us);

  const Wish small{schedule::Collective::all_reduce, {tuttiAlgorithmTwoLevel}, 8};
  options.one_machine = true;
  EXPECT_GT(Fastest(TargetOf(options), small).result.duration_us, Fastest(target, small).result.duration_us);
}

// Two sockets of four caches of eight cores: the way between caches is one for all of a cache's ranks.
TEST(Target, IsAHostOfSeveralCaches) {
  if (!detect::HasHwloc()) GTEST_SKIP() << "this build has no hwloc";
  TargetOptions options;
  options.host = "package:2 [numa] l3:4 core:8 pu:1";
  options.calibration = "none";
  const Target target = TargetOf(options);
  EXPECT_EQ(target.machine.nranks(), 64);
  EXPECT_EQ(target.machine.rank_layout().nodes(), 8);
  EXPECT_EQ(target.machine.costs().cores, 8);
  EXPECT_TRUE(target.machine.one_host());
  EXPECT_TRUE(ConditionsOf(target).domains);
  EXPECT_GT(target.machine.RouteOf(0, 8, 0).latency, target.machine.RouteOf(0, 7, 0).latency);
  // Two levels are faster than the flat algorithms where latency counts.
  const auto us = [&](tuttiAlgorithm_t algorithm) {
    return Fastest(target, {schedule::Collective::reduce_scatter, {algorithm}, 1024}).result.duration_us;
  };
  EXPECT_LT(us(tuttiAlgorithmTwoLevel), us(tuttiAlgorithmRing));

  options.host = "package:1 l3:1 core:64 pu:1";
  EXPECT_EQ(TargetOf(options).machine.rank_layout().nodes(), 1);
  EXPECT_FALSE(ConditionsOf(TargetOf(options)).domains);
  options.host = "sixty cores";
  EXPECT_THROW(TargetOf(options), Error);
}

TEST(Candidates, OfAProgramMoveItsData) {
  const msccl::Program program = msccl::ReadProgram("algorithms/msccl/testdata/hierarchical_all_reduce.xml");
  const cost_model::Machine machine =
      cost_model::HostMachine(cost_model::DefaultHostCosts(2), schedule::ArrangeEvenly(4, 1));
  Wish wish{schedule::Collective::all_reduce, {}, 100'000};
  wish.program = &program.ranks;
  for (const bool gpus : {false, true}) {
    const auto candidates = Candidates({machine, gpus}, wish);
    EXPECT_GT(candidates.size(), 1u);
    for (const simulator::SimulatedCall& call : candidates) {
      EXPECT_EQ(call.algorithm, tuttiAlgorithmProgram);
      EXPECT_EQ(call.channels, 1);
      EXPECT_EQ(simulator::ScheduleOf(machine, call, 2).channels, program.ranks[2].channels);
    }
    EXPECT_GT(Fastest({machine, gpus}, wish).result.duration_us, 0);
  }
}

// The machine's links carry what each rank sends in a program.
TEST(Run, CarriesAProgramsBytes) {
  const msccl::Program program = msccl::ReadProgram("algorithms/msccl/testdata/star_gather.xml");
  const cost_model::Machine machine =
      cost_model::HostMachine(cost_model::DefaultHostCosts(3), schedule::ArrangeEvenly(3, 1));
  Wish wish{schedule::Collective::gather, {}, 3'000};
  wish.program = &program.ranks;
  EXPECT_EQ(Fastest({machine, false}, wish).result.steps, 5u);  // two sends, two receives, a copy
}

// The command's output, or its error.
std::string Simulated(const std::string& arguments) {
  CLI::App app;
  AddSimulate(app);
  ::testing::internal::CaptureStdout();
  std::string refusal;
  try {
    app.parse("simulate " + arguments + " --calibration none -b 1K -e 1K");
  } catch (const Error& error) {
    refusal = error.what();
  }
  const std::string output = ::testing::internal::GetCapturedStdout();
  return refusal.empty() ? output : refusal;
}

TEST(Simulate, TakesPrograms) {
  const std::string folder = "algorithms/msccl/testdata/";
  const auto expect = [&](const std::string& arguments, const std::vector<std::string>& words) {
    const std::string text = Simulated(arguments);
    for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
  };
  expect(folder + "ring_all_gather.xml", {"4 ranks, 1 node", "  1024  ", "program  "});
  expect(folder + "ring_all_gather.xml --algo ring", {"program  ", "ring  "});
  expect("all_reduce --algo best," + folder + "ring_all_reduce.xml", {"3 ranks", "program  "});
  expect(folder + "ring_all_gather.xml --topo topology/testdata/dgxh100.xml", {"4 ranks", "program  "});
  expect(folder + "ring_all_gather.xml --ranks 8", {"ring_all_gather is a program for 4 ranks, but 8 are requested"});
  expect(folder + "ring_all_gather.xml --channels 2", {"--channels is for algorithms"});
  expect("all_reduce --algo " + folder + "ring_all_gather.xml", {"for all_gather, not for all_reduce"});
  expect(folder + "wrong_deadlock.xml", {"ring_all_gather is wrong: deadlock", "rank 3 to fill a slot"});
  expect(folder + "wrong_dangling_dependency.xml", {"xml:53:", "which does not exist"});
  expect(folder + "none.xml", {"none.xml: No such file"});
}

TEST(BusFactor, IsNcclTests) {
  EXPECT_DOUBLE_EQ(BusFactor(schedule::Collective::all_reduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(BusFactor(schedule::Collective::all_gather, 8), 0.875);
  EXPECT_DOUBLE_EQ(BusFactor(schedule::Collective::broadcast, 8), 1);
  EXPECT_DOUBLE_EQ(AlgorithmBandwidth(1'000'000, 10), 100);
}

// As in the library: hardware may tear lines that pass PCIe.
TEST(Target, LinesNeedNvlinkBetweenAllGpus) {
  const auto protocol_on = [](const std::string& name) {
    TargetOptions options;
    options.topology = "topology/testdata/" + name;
    return ConditionsOf(TargetOf(options, true)).messages.protocol;
  };
  EXPECT_EQ(protocol_on("dgxh100.xml"), ring::Protocol::inlined);
  EXPECT_EQ(protocol_on("l40s_8gpu.xml"), ring::Protocol::bulk);
  EXPECT_EQ(protocol_on("dgx1v.xml"), ring::Protocol::bulk) << "some pairs alone have NVLink";
}

}  // namespace
}  // namespace tutti::tools
