#include "tools/simulated.h"

#include <gtest/gtest.h>

#include <set>

#include "algorithms/explain.h"
#include "algorithms/host_machine.h"
#include "algorithms/machine_of_system.h"
#include "topology/xml.h"

namespace tutti::tools {
namespace {

Machine Dgx(int nodes) { return MachineOfSystem(ReadTopologyFile("topology/testdata/dgxh100.xml").system, nodes); }

TEST(Fastest, IsNoSlowerThanAnyCandidate) {
  const Machine machine = Dgx(1);
  const Wish wish{Collective::all_gather, {}, 1 << 20};
  const auto candidates = Candidates({machine}, wish);
  const double fastest = Fastest({machine}, wish).result.duration_us;
  EXPECT_GT(candidates.size(), 10u);
  for (const SimulatedCall& call : candidates) EXPECT_LE(fastest, tools::Run(machine, call, true).result.duration_us);
}

TEST(Fastest, DoesAsItIsTold) {
  const Machine machine = Dgx(2);
  const Wish wish{Collective::all_reduce, {tuttiAlgorithmDoubleBinaryTree}, 1 << 20, 8, Wire::inlined, 32'768};
  const auto candidates = Candidates({machine}, wish);
  ASSERT_EQ(candidates.size(), 1u);
  EXPECT_EQ(candidates[0].algorithm, tuttiAlgorithmDoubleBinaryTree);
  EXPECT_EQ(candidates[0].channels, 4);  // pairs of trees
  EXPECT_EQ(candidates[0].shape, (Shape{Wire::inlined, 32'768}));
}

TEST(Candidates, HaveNoBaselines) {
  for (const SimulatedCall& call : Candidates({Dgx(1)}, {Collective::all_reduce, {}, 1024})) {
    EXPECT_FALSE(IsBaseline(call.algorithm));
  }
}

TEST(Candidates, AreNotFarFromTheCheapest) {
  const Target target{Dgx(2)};
  std::set<tuttiAlgorithm_t> left;
  for (const SimulatedCall& call : Candidates(target, {Collective::all_reduce, {}, 256 << 20}))
    left.insert(call.algorithm);
  EXPECT_TRUE(left.contains(tuttiAlgorithmTwoLevel));
  EXPECT_TRUE(left.contains(tuttiAlgorithmRing));
  EXPECT_FALSE(left.contains(tuttiAlgorithmRecursive)) << "each of its steps leaves most links idle";
}

// The formula and the events know the same machine. The events also know what meets on a link when, and slots that run
// out, so the formula may be somewhat below.
TEST(Candidates, ArePricedLikeTheyAreSimulated) {
  for (const int nodes : {1, 2}) {
    const Target target{Dgx(nodes)};
    const Conditions conditions = ConditionsOf(target);
    Pricing pricing(target.machine, conditions);
    for (const auto collective : {Collective::all_reduce, Collective::all_gather, Collective::broadcast}) {
      for (const std::size_t bytes : {std::size_t{64} << 10, std::size_t{16} << 20}) {
        for (const Priced& priced : pricing.Compare({collective}, bytes)) {
          if (!priced.why_not.empty()) continue;
          const auto& [algorithm, channels, shape] = priced.candidate;
          const double us =
              tools::Run(target.machine, {collective, algorithm, bytes, channels, shape}, true).result.duration_us;
          EXPECT_GT(priced.us, 0.5 * us) << NameOf(collective) << ' ' << ToString(priced.candidate) << ' ' << bytes;
          EXPECT_LT(priced.us, 1.3 * us) << NameOf(collective) << ' ' << ToString(priced.candidate) << ' ' << bytes;
        }
      }
    }
  }
}

TEST(Run, FoldsOnlyLargeMachines) {
  const SimulatedCall call{Collective::all_reduce, tuttiAlgorithmRing, 1 << 20, 1, {Wire::bulk, 1 << 17}};
  EXPECT_FALSE(tools::Run(Dgx(4), call, false).folding.has_value());
  EXPECT_EQ(tools::Run(Dgx(64), call, false).folding->classes(), 1);
  EXPECT_FALSE(tools::Run(Dgx(64), call, true).folding.has_value());
}

// Two ranks on one core cost yields; each on its own do not.
TEST(Run, KnowsHosts) {
  const Machine shared = HostMachine(DefaultHostCosts(1), ArrangeEvenly(2, 1));
  const Machine apart = HostMachine(DefaultHostCosts(2), ArrangeEvenly(2, 1));
  const Wish wish{Collective::all_reduce, {}, 8};
  EXPECT_GT(Fastest({shared, false}, wish).result.duration_us, Fastest({apart, false}, wish).result.duration_us);
}

TEST(BusFactor, IsNcclTests) {
  EXPECT_DOUBLE_EQ(BusFactor(Collective::all_reduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::all_gather, 8), 0.875);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::broadcast, 8), 1);
  EXPECT_DOUBLE_EQ(AlgorithmBandwidth(1'000'000, 10), 100);
}

}  // namespace
}  // namespace tutti::tools
