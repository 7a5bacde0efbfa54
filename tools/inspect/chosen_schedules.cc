#include "tools/inspect/chosen_schedules.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "algorithms/builders/build.h"
#include "base/error.h"
#include "base/usage_error.h"
#include "selection/cost_model/candidates.h"
#include "tools/simulator/target.h"

namespace tutti::tools {
namespace {

// Schedules number ranks with 16 bits, and output for more ranks would be unreadable.
constexpr int kMaxRanks = 4096;
constexpr int kMaxChannels = 64;

schedule::RankLayout RankLayoutOf(const ScheduleChoice& choice) {
  if (!choice.topology.empty()) {
    if (!choice.ranks_on.empty()) {
      ThrowUsage("--ranks-on cannot be combined with --topo, which defines the nodes itself");
    }
    TargetOptions options;
    options.topology = choice.topology;
    options.nodes = choice.nodes;
    options.ranks = choice.ranks;
    return TargetOf(options).machine.rank_layout();
  }
  if (!choice.ranks_on.empty()) {
    std::vector<int> node_of;
    for (std::size_t node = 0; node < choice.ranks_on.size(); ++node) {
      node_of.insert(node_of.end(), static_cast<std::size_t>(choice.ranks_on[node]), static_cast<int>(node));
    }
    return schedule::ArrangeByNode(node_of);
  }
  if (choice.ranks == 0) ThrowUsage("an algorithm needs --ranks, --ranks-on or --topo");
  if (choice.nodes > choice.ranks) {
    ThrowUsage("{} ranks are too few for {} nodes", choice.ranks, choice.nodes);
  }
  return schedule::ArrangeEvenly(choice.ranks, choice.nodes);
}

}  // namespace

void AddScheduleOptions(CLI::App& command, ScheduleChoice& choice) {
  command.add_option("WHAT", choice.what, "all_reduce, reduce_scatter, all_gather, ..., or a program's FILE.xml")
      ->required();
  command.add_option("ALGORITHM", choice.algorithm, "ring, two_level, ...; required with a collective");
  command.add_option("--ranks", choice.ranks, "number of ranks, for an algorithm")->check(CLI::Range(1, kMaxRanks));
  command.add_option("--nodes", choice.nodes, "number of nodes over which the ranks are spread evenly")
      ->check(CLI::Range(1, kMaxRanks));
  command.add_option("--ranks-on", choice.ranks_on, "ranks on each node: 3,5")
      ->delimiter(',')
      ->check(CLI::Range(1, kMaxRanks));
  command.add_option("--topo", choice.topology, "NCCL topology XML of one node: one rank per GPU, rings over its NICs");
  command.add_option("--root", choice.root)->check(CLI::Range(0, kMaxRanks - 1));
  command.add_option("--channels", choice.channels)->check(CLI::Range(1, kMaxChannels));
}

msccl::Program ChosenSchedules(const ScheduleChoice& given) {
  if (given.what.ends_with(".xml")) return msccl::ReadProgram(given.what);
  ScheduleChoice choice = given;
  // The former order.
  if (builders::AlgorithmFromName(given.what)) std::swap(choice.what, choice.algorithm);
  if (choice.what.empty()) ThrowUsage("{} needs a collective, such as all_reduce", choice.algorithm);
  const schedule::Collective collective = cost_model::ParseCollective(choice.what);
  if (choice.algorithm.empty()) ThrowUsage("{} needs an algorithm, such as ring", choice.what);
  const auto algorithm = cost_model::ParseAlgorithm(choice.algorithm);
  const schedule::RankLayout where = RankLayoutOf(choice);
  if (where.nranks() > kMaxRanks) ThrowUsage("{} ranks; the limit is {}", where.nranks(), kMaxRanks);
  if (choice.root >= where.nranks()) {
    ThrowUsage("the root is rank {}, but the last rank is {}", choice.root, where.nranks() - 1);
  }
  builders::ScheduleRequest request{collective, 0, where.nranks(), choice.root, choice.channels, &where};
  msccl::Program program{choice.algorithm, true, {}};
  for (; request.rank < request.nranks; ++request.rank) {
    auto schedule = builders::Build(algorithm, request);
    if (!schedule) {
      ThrowUsage("{} does not support {} on {} ranks", choice.algorithm, choice.what, where.nranks());
    }
    program.ranks.push_back(std::move(*schedule));
  }
  return program;
}

msccl::Program ProvedSchedules(const ScheduleChoice& choice, int slots) {
  msccl::Program program = ChosenSchedules(choice);
  if (const auto wrong = msccl::Prove(program, slots))
    Throw(tuttiInvalidArgument, "{} is wrong: {}", program.name, *wrong);
  return program;
}

}  // namespace tutti::tools
