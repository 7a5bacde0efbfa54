#include "selection/cost_model/step_graph.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "algorithms/builders/records.h"
#include "selection/cost_model/host_machine.h"
#include "selection/cost_model/test_machines.h"

namespace tutti::cost_model {
namespace {

int StepsOf(const RepresentativeRanks& representatives) {
  int steps = 0;
  for (const auto& member : representatives.members()) {
    for (const auto& channel : member.channels) {
      for (const auto& lane : channel.lanes) steps += static_cast<int>(lane.steps.size());
    }
  }
  return steps;
}

int SlotsRead(const StepGraph& graph) {
  int slots = 0;
  for (std::size_t i = 0; i + 1 < graph.nodes.size(); ++i) slots += graph.works[graph.nodes[i].work].copying.slot_reads;
  return slots;
}

// For every schedule on every machine: each step appears once, behind all its waits, and every slot that is read has
// been filled.
TEST(StepGraph, OrdersEveryStepBehindWhatItWaitsFor) {
  for (const auto& [nranks, nodes] :
       {std::pair{1, 1}, {2, 1}, {7, 1}, {16, 1}, {40, 1}, {64, 1}, {8, 2}, {12, 3}, {64, 8}}) {
    const Machine machine = HostMachine(DefaultHostCosts(2), schedule::ArrangeEvenly(nranks, nodes));
    for (int c = 0; c < schedule::kScheduledCollectives; ++c) {
      for (int a = tuttiAlgorithmNone + 1; a < tuttiNumAlgorithms; ++a) {
        const auto collective = static_cast<schedule::Collective>(c);
        const auto algorithm = static_cast<tuttiAlgorithm_t>(a);
        if (algorithm == tuttiAlgorithmNvls) continue;  // this machine has no switch
        const auto representatives =
            RepresentativeRanks::Of(algorithm, {collective, 0, nranks, 0, 1, &machine.rank_layout()});
        if (!representatives) continue;
        const StepGraph graph(machine, *representatives);
        SCOPED_TRACE(std::string(builders::NameOf(algorithm)) + " " + std::string(schedule::NameOf(collective)) +
                     " on " + std::to_string(nranks) + " ranks, " + std::to_string(nodes) + " nodes");
        ASSERT_EQ(static_cast<int>(graph.nodes.size()) - 1, StepsOf(*representatives));
        int slots = 0;
        for (int i = 0; i + 1 < static_cast<int>(graph.nodes.size()); ++i) {
          for (int w = graph.nodes[i].first_wait; w < graph.nodes[i + 1].first_wait; ++w) {
            ASSERT_LT(graph.waits[w].node, i);
            slots += graph.waits[w].way != -1 ? 1 : 0;
          }
        }
        EXPECT_EQ(slots, SlotsRead(graph));
      }
    }
  }
}

// One rank stands for all on a ring by rank; on another ring, its neighbours would be others' neighbours.
TEST(StepGraph, KnowsAllRanksOfARingThatIsNotByRank) {
  constexpr int kRanks = 20;
  schedule::RankLayout where = schedule::ArrangeEvenly(kRanks, 1);
  const auto members = [&] {
    const auto found =
        RepresentativeRanks::Of(tuttiAlgorithmRing, {schedule::Collective::all_gather, 0, kRanks, 0, 1, &where});
    return found->members().size();
  };
  EXPECT_EQ(members(), 1u);
  auto& ring = where.rings.emplace_back();
  for (const int first : {0, 1}) {
    for (int rank = first; rank < kRanks; rank += 2) ring.push_back(rank);
  }
  EXPECT_EQ(members(), std::size_t{kRanks});
}

// Each rank reads one sum and multicasts one block. All ranks' ways out and one way in carry a sum, one way out and all
// ways in a multicast.
TEST(StepGraph, CountsWhatCrossesASwitch) {
  constexpr int kRanks = 5;
  Costs costs = FreeCosts();
  costs.in_switch_efficiency = 0.5;
  const Machine machine = SwitchedMachine(1, kRanks, costs);
  const StepGraph graph(machine,
                        *RepresentativeRanks::Of(tuttiAlgorithmNvls, {schedule::Collective::all_reduce, 0, kRanks}));
  EXPECT_TRUE(graph.sends.empty());
  ASSERT_EQ(graph.in_switch.size(), 2U * kRanks);
  EXPECT_EQ(std::ranges::count(graph.in_switch, true, &StepGraph::InSwitch::sum), kRanks);
  double widest = 0, longest = 0;
  for (const auto& work : graph.works) {
    widest = std::max(widest, work.us_per_byte);
    longest = std::max(longest, work.read_us);
  }
  // The step that reads the sum and multicasts crosses its own links twice, at half their bandwidth.
  EXPECT_DOUBLE_EQ(widest, 2 * 2 * UsPerByte(kSwitchBandwidth));
  EXPECT_DOUBLE_EQ(longest, 2 * kLocalLatency);
}

TEST(StepGraph, CountsWhatEachRankSends) {
  const Machine machine = HostMachine(DefaultHostCosts(2), schedule::ArrangeEvenly(6, 1));
  const StepGraph graph(machine,
                        *RepresentativeRanks::Of(tuttiAlgorithmRing, {schedule::Collective::all_gather, 0, 6}));
  ASSERT_EQ(graph.sends.size(), 6U);
  for (const auto& send : graph.sends) {
    EXPECT_EQ(send.peer, (send.member + 1) % 6);
    EXPECT_EQ(send.slots, 5);
  }
}

}  // namespace
}  // namespace tutti::cost_model
