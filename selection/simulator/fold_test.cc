#include "selection/simulator/fold.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "selection/cost_model/test_machines.h"
#include "selection/simulator/simulate.h"

namespace tutti {
namespace {

struct Case {
  int nodes;
  int ranks;  // of a node
};
class Folded : public testing::TestWithParam<Case> {};

Costs SomeCosts() {
  Costs costs = FreeCosts();
  costs.operation_us = 5;
  costs.step_us = 0.5;
  costs.executor_bandwidth = {{std::numeric_limits<std::size_t>::max(), 60}};
  return costs;
}

double Ratio(tuttiAlgorithm_t algorithm, const Case& machine_of, std::size_t bytes_per_rank, std::size_t chunk,
             Collective collective = Collective::all_reduce) {
  const Machine machine = SwitchedMachine(machine_of.nodes, machine_of.ranks, SomeCosts());
  const auto blocks = collective == Collective::all_reduce ? static_cast<std::size_t>(machine.nranks()) : 1;
  const SimulatedCall call{collective, algorithm, bytes_per_rank * blocks, 1, {Wire::bulk, chunk}};
  const auto folding = Fold(algorithm, call.collective, machine.rank_layout());
  EXPECT_TRUE(folding.has_value());
  return Simulate(machine, call, &*folding).duration_us / Simulate(machine, call).duration_us;
}

TEST_P(Folded, RingsAreTheFullOnes) {
  for (const auto algorithm : {tuttiAlgorithmRing, tuttiAlgorithmTwoLevel}) {
    for (const std::size_t chunk : {std::size_t{1} << 10, std::size_t{1} << 20}) {
      EXPECT_NEAR(Ratio(algorithm, GetParam(), 6400, chunk), 1, 1e-6) << NameOf(algorithm);
    }
  }
}

// Every algorithm whose symmetry is known, for the collectives that it supports.
TEST_P(Folded, WhatIsSymmetricIsTheFullOne) {
  const int nranks = GetParam().nodes * GetParam().ranks;
  int tried = 0;
  for (const auto collective :
       {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather, Collective::all_to_all}) {
    for (int a = tuttiAlgorithmNone + 1; a < tuttiNumAlgorithms; ++a) {
      const auto algorithm = static_cast<tuttiAlgorithm_t>(a);
      if (SymmetryOf(algorithm, collective) == Symmetry::none || !Supports(algorithm, collective, nranks)) continue;
      if (nranks > 64 || !Fold(algorithm, collective, ArrangeEvenly(nranks, GetParam().nodes))) continue;
      for (const std::size_t chunk : {std::size_t{1} << 10, std::size_t{1} << 20}) {
        SCOPED_TRACE(fmt::format("{} {}, chunk {}", NameOf(algorithm), NameOf(collective), chunk));
        EXPECT_NEAR(Ratio(algorithm, GetParam(), 6400, chunk, collective), 1, 1e-3);
      }
      ++tried;
    }
  }
  EXPECT_TRUE(tried > 0 || nranks > 64);
}

// "A few per cent": where the trees are ragged.
TEST_P(Folded, TreesAreNearTheFullOnes) {
  for (const auto algorithm : {tuttiAlgorithmDoubleBinaryTree, tuttiAlgorithmTwoLevelTree}) {
    EXPECT_NEAR(Ratio(algorithm, GetParam(), 64, std::size_t{1} << 20), 1, 0.03) << NameOf(algorithm);
    EXPECT_NEAR(Ratio(algorithm, GetParam(), 64'000, 32'000), 1, 0.05) << NameOf(algorithm);
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, Folded,
                         testing::Values(Case{1, 8}, Case{2, 8}, Case{3, 8}, Case{5, 8}, Case{16, 8}, Case{17, 8},
                                         Case{29, 8}, Case{4, 1}, Case{9, 1}, Case{32, 1}, Case{45, 1}, Case{64, 1},
                                         Case{3, 5}, Case{7, 6}, Case{40, 4}),
                         [](const auto& info) { return fmt::format("{}x{}", info.param.nodes, info.param.ranks); });

TEST(Fold, KnowsWhatHasNoSymmetry) {
  EXPECT_FALSE(Fold(tuttiAlgorithmRing, Collective::broadcast, ArrangeEvenly(8, 2)).has_value());
  EXPECT_FALSE(Fold(tuttiAlgorithmRecursive, Collective::all_reduce, ArrangeEvenly(12, 2)).has_value());
  EXPECT_FALSE(Fold(tuttiAlgorithmGrouped, Collective::all_reduce, ArrangeEvenly(8, 2)).has_value());
  EXPECT_FALSE(Fold(tuttiAlgorithmRing, Collective::all_reduce, ArrangeEvenly(7, 2)).has_value());
}

// The number of stand-ins does not grow with the machine.
TEST(Fold, NeedsFewStandInsForManyRanks) {
  const RankLayout large = ArrangeEvenly(24'576, 3'072);
  EXPECT_EQ(Fold(tuttiAlgorithmRing, Collective::all_reduce, large)->classes(), 1);
  EXPECT_LT(Fold(tuttiAlgorithmDoubleBinaryTree, Collective::all_reduce, large)->classes(), 100);
}

}  // namespace
}  // namespace tutti
