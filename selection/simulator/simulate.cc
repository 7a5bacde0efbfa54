#include "selection/simulator/simulate.h"

#include <algorithm>
#include <numeric>

#include "selection/simulator/simulation_run.h"

namespace tutti::simulator {
namespace {

// Bytes that the ranks of the fullest node read and write.
double Footprint(const cost_model::Machine& machine, schedule::Collective collective,
                 const schedule::Extents& extents) {
  const auto sum = static_cast<double>(std::accumulate(extents.length.begin(), extents.length.end(), std::size_t{0}));
  const auto longest = static_cast<double>(*std::max_element(extents.length.begin(), extents.length.end()));
  // The extents of blocks of pairs name both sides' already.
  const double per_rank = !schedule::HasBlocksOfRanks(collective)  ? 2 * sum
                          : schedule::HasBlocksOfPairs(collective) ? sum
                                                                   : sum + longest;
  std::size_t ranks = 0;
  for (const auto& node : machine.rank_layout().ranks_on) ranks = std::max(ranks, node.size());
  return static_cast<double>(ranks) * per_rank;
}

}  // namespace

double SimulationResult::Utilisation(const cost_model::Machine& machine, int resource) const {
  constexpr double kBytesPerGBus = 1e3;  // 1 GB/s for 1 us
  const double could = machine.resource(resource).bandwidth * duration_us * kBytesPerGBus;
  return could > 0 ? bytes_over[resource] / could : 0;
}

SimulationResult Simulate(const SimulationInput& input) {
  const NodeClasses all = EveryNodeItself(input.machine.rank_layout().nodes());
  const FlatSchedules schedules(input.machine, input.source, input.extents, input.config,
                                input.node_classes != nullptr ? *input.node_classes : all);
  return SimulationRun(schedules, input).Run();
}

schedule::Schedule ScheduleOf(const cost_model::Machine& machine, const SimulatedCall& call, int rank) {
  if (call.program != nullptr) return (*call.program)[rank];
  const auto& where = machine.rank_layout();
  return builders::Build(call.algorithm, {call.collective, rank, machine.nranks(), call.root, call.channels, &where,
                                          machine.one_host()})
      .value();
}

SimulationResult Simulate(const cost_model::Machine& machine, const SimulatedCall& call,
                          const NodeClasses* node_classes, Timeline* timeline) {
  const auto source = [&](int rank) { return ScheduleOf(machine, call, rank); };
  schedule::Extents extents = schedule::UniformExtents(call.collective, machine.nranks(), source(0).blocks, call.bytes);
  // A node stands for others whatever their blocks, so all blocks are as long as the longest.
  if (node_classes != nullptr) {
    std::fill(extents.length.begin(), extents.length.end(),
              *std::max_element(extents.length.begin(), extents.length.end()));
  }
  const double footprint = Footprint(machine, call.collective, extents);
  // Channels that share a rank's work are driven by threads of their own, where there are cores for them.
  const int threads = call.channels == 1 ? 1
                                         : cost_model::ThreadsFor(machine.costs().cores,
                                                                  static_cast<int>(machine.ranks_of_fullest_node()));
  return Simulate(
      {machine, source, std::move(extents), call.config, call.depth, node_classes, timeline, footprint, threads});
}

}  // namespace tutti::simulator
