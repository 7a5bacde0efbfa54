#include "selection/simulator/node_classes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/builders/records.h"
#include "selection/cost_model/test_machines.h"
#include "selection/simulator/simulate.h"
#include "testing/surroundings.h"

namespace tutti::simulator {
namespace {

struct Case {
  int nodes;
  int ranks;  // of a node
};
class StandIns : public ::testing::TestWithParam<Case> {};

cost_model::Costs SomeCosts() {
  cost_model::Costs costs = cost_model::FreeCosts();
  costs.operation_us = 5;
  costs.step_us = 0.5;
  costs.executor_bandwidth = {{std::numeric_limits<std::size_t>::max(), 60}};
  return costs;
}

double Ratio(tuttiAlgorithm_t algorithm, const Case& machine_of, std::size_t bytes_per_rank, std::size_t chunk,
             schedule::Collective collective = schedule::Collective::all_reduce) {
  const cost_model::Machine machine = cost_model::SwitchedMachine(machine_of.nodes, machine_of.ranks, SomeCosts());
  const auto blocks = collective == schedule::Collective::all_reduce ? static_cast<std::size_t>(machine.nranks()) : 1;
  const SimulatedCall call{collective, algorithm, bytes_per_rank * blocks, 1, {ring::Protocol::bulk, chunk}};
  const auto node_classes = FindNodeClasses(algorithm, call.collective, machine.rank_layout());
  EXPECT_TRUE(node_classes.has_value());
  return Simulate(machine, call, &*node_classes).duration_us / Simulate(machine, call).duration_us;
}

TEST_P(StandIns, RingsAreTheFullOnes) {
  for (const auto algorithm : {tuttiAlgorithmRing, tuttiAlgorithmTwoLevel}) {
    for (const std::size_t chunk : {std::size_t{1} << 10, std::size_t{1} << 20}) {
      EXPECT_NEAR(Ratio(algorithm, GetParam(), 6400, chunk), 1, 1e-6) << builders::NameOf(algorithm);
    }
  }
}

// Every algorithm whose symmetry is known, for the collectives that it supports.
TEST_P(StandIns, WhatIsSymmetricIsTheFullOne) {
  const int nranks = GetParam().nodes * GetParam().ranks;
  int tried = 0;
  for (const auto collective : {schedule::Collective::all_reduce, schedule::Collective::reduce_scatter,
                                schedule::Collective::all_gather, schedule::Collective::all_to_all}) {
    for (const auto algorithm : builders::kAllAlgorithms) {
      if (builders::RecordOf(algorithm).SymmetryIn(collective) == builders::Symmetry::none ||
          !builders::Supports(algorithm, collective, nranks))
        continue;
      if (nranks > 64 || !FindNodeClasses(algorithm, collective, schedule::ArrangeEvenly(nranks, GetParam().nodes)))
        continue;
      for (const std::size_t chunk : {std::size_t{1} << 10, std::size_t{1} << 20}) {
        SCOPED_TRACE(fmt::format("{} {}, chunk {}", builders::NameOf(algorithm), schedule::NameOf(collective), chunk));
        EXPECT_NEAR(Ratio(algorithm, GetParam(), 6400, chunk, collective), 1, 1e-3);
      }
      ++tried;
    }
  }
  EXPECT_TRUE(tried > 0 || nranks > 64);
}

// "A few per cent": where the trees are ragged.
TEST_P(StandIns, TreesAreNearTheFullOnes) {
  for (const auto algorithm : {tuttiAlgorithmDoubleBinaryTree, tuttiAlgorithmTwoLevelTree, tuttiAlgorithmNvls}) {
    EXPECT_NEAR(Ratio(algorithm, GetParam(), 64, std::size_t{1} << 20), 1, 0.03) << builders::NameOf(algorithm);
    EXPECT_NEAR(Ratio(algorithm, GetParam(), 64'000, 32'000), 1, 0.05) << builders::NameOf(algorithm);
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, StandIns,
                         ::testing::ValuesIn(testing::Grid(std::vector<Case>{{1, 8},
                                                                             {2, 8},
                                                                             {3, 8},
                                                                             {5, 8},
                                                                             {16, 8},
                                                                             {17, 8},
                                                                             {29, 8},
                                                                             {4, 1},
                                                                             {9, 1},
                                                                             {32, 1},
                                                                             {45, 1},
                                                                             {64, 1},
                                                                             {40, 4},
                                                                             {3, 5},
                                                                             {7, 6}})),
                         [](const auto& info) { return fmt::format("{}x{}", info.param.nodes, info.param.ranks); });

TEST(FindNodeClasses, KnowsWhatHasNoSymmetry) {
  EXPECT_FALSE(
      FindNodeClasses(tuttiAlgorithmRing, schedule::Collective::broadcast, schedule::ArrangeEvenly(8, 2)).has_value());
  EXPECT_FALSE(
      FindNodeClasses(tuttiAlgorithmRecursive, schedule::Collective::all_reduce, schedule::ArrangeEvenly(12, 2))
          .has_value());
  EXPECT_FALSE(FindNodeClasses(tuttiAlgorithmGrouped, schedule::Collective::all_reduce, schedule::ArrangeEvenly(8, 2))
                   .has_value());
  EXPECT_FALSE(
      FindNodeClasses(tuttiAlgorithmRing, schedule::Collective::all_reduce, schedule::ArrangeEvenly(7, 2)).has_value());
}

// The number of stand-ins does not grow with the machine.
TEST(FindNodeClasses, NeedsFewStandInsForManyRanks) {
  const schedule::RankLayout large = schedule::ArrangeEvenly(24'576, 3'072);
  EXPECT_EQ(FindNodeClasses(tuttiAlgorithmRing, schedule::Collective::all_reduce, large)->classes(), 1);
  EXPECT_LT(FindNodeClasses(tuttiAlgorithmDoubleBinaryTree, schedule::Collective::all_reduce, large)->classes(), 100);
}

}  // namespace
}  // namespace tutti::simulator
