#include "tools/simulator/simulated.h"

#include <algorithm>
#include <utility>

#include "algorithms/builders/build.h"
#include "base/usage_error.h"
#include "selection/cost_model/candidates.h"
#include "selection/simulator/node_classes.h"

namespace tutti::tools {
namespace {

// Prices are accurate enough that candidates above this multiple of the lowest price cannot be the fastest.
constexpr double kWorthSimulating = 2;

cost_model::TuningContext ConditionsOf(const Target& target, const Wish& wish) {
  cost_model::TuningContext tuning = tools::ConditionsOf(target);
  tuning.forced.channels = wish.channels;
  tuning.max_channels = std::max(tuning.max_channels, wish.channels);
  tuning.forced.protocol = wish.protocol;
  tuning.forced.chunk_bytes = wish.chunk_bytes;
  if (wish.program != nullptr) {
    tuning.programs[static_cast<std::size_t>(wish.collective)] = wish.program;
    tuning.forced.channels = 1;  // it has its own channels
  }
  return tuning;
}

cost_model::Unit UnitOf(tuttiAlgorithm_t algorithm, const cost_model::TuningContext& tuning, const Wish& wish) {
  using cost_model::RepresentativeRanks;
  if (builders::RecordOf(algorithm).from_file()) return RepresentativeRanks::Of(*wish.program).unit();
  return RepresentativeRanks::Of(algorithm, tuning.Ask(wish.collective))->unit();
}

}  // namespace

std::size_t BytesOfBlock(schedule::Collective collective, std::size_t bytes, int ranks) {
  return schedule::HasBlocksOfRanks(collective) ? std::max<std::size_t>(1, bytes / static_cast<std::size_t>(ranks))
                                                : bytes;
}

double BusFactor(schedule::Collective collective, int ranks) { return PatternOf(collective).bus_factor(ranks); }

double AlgorithmBandwidth(std::size_t bytes, double us) {
  constexpr double kBytesPerGBus = 1e3;
  return us > 0 ? static_cast<double>(bytes) / us / kBytesPerGBus : 0;
}

std::vector<simulator::SimulatedCall> Candidates(const Target& target, const Wish& wish) {
  const cost_model::TuningContext tuning = ConditionsOf(target, wish);
  const cost_model::Kind kind{wish.collective};
  const std::size_t bytes = BytesOfBlock(wish.collective, wish.bytes, tuning.nranks);
  const auto wanted = wish.program != nullptr ? std::vector{builders::kFromFiles} : wish.algorithms;
  std::vector<cost_model::Candidate> candidates;
  for (const auto algorithm : builders::kAllAlgorithms) {
    const bool named = std::find(wanted.begin(), wanted.end(), algorithm) != wanted.end();
    if (!wanted.empty() && !named) continue;
    const auto why_not =
        named ? cost_model::WhyImpossible(algorithm, kind, tuning) : cost_model::WhyNot(algorithm, kind, tuning);
    if (!why_not.empty()) continue;
    const auto ways = cost_model::WaysToMove(algorithm, kind, tuning, bytes, UnitOf(algorithm, tuning, wish));
    candidates.insert(candidates.end(), ways.begin(), ways.end());
  }
  // Several named algorithms are to be compared, whatever they cost.
  if (wanted.size() <= 1 && wish.program == nullptr && !candidates.empty()) {
    tuner::Tuner tuner(target.machine, tuning);
    std::vector<double> prices;
    for (const auto& candidate : candidates) prices.push_back(tuner.Microseconds(candidate, kind, bytes));
    const double enough = kWorthSimulating * *std::min_element(prices.begin(), prices.end());
    std::size_t index = 0;
    std::erase_if(candidates, [&](const cost_model::Candidate&) { return prices[index++] > enough; });
  }
  std::vector<simulator::SimulatedCall> calls;
  for (const auto& candidate : candidates) {
    calls.push_back(
        {wish.collective, candidate.algorithm, bytes, candidate.channels, candidate.config, 0, 0, wish.program});
  }
  return calls;
}

Outcome Run(const cost_model::Machine& machine, const simulator::SimulatedCall& call, NodesStandIn nodes_stand_in,
            simulator::Timeline* timeline) {
  Outcome outcome{call, {}, std::nullopt};
  if (nodes_stand_in != NodesStandIn::never) {
    auto node_classes = simulator::FindNodeClasses(call.algorithm, call.collective, machine.rank_layout());
    const bool exact = node_classes && node_classes->classes() == 1;
    if (machine.nranks() > kRanksInFull || (exact && nodes_stand_in == NodesStandIn::wherever_exact)) {
      outcome.node_classes = std::move(node_classes);
    }
  }
  outcome.result =
      simulator::Simulate(machine, call, outcome.node_classes ? &*outcome.node_classes : nullptr, timeline);
  return outcome;
}

Outcome Fastest(const Target& target, const Wish& wish, const Told& tell) {
  std::optional<Outcome> best;
  const auto candidates = Candidates(target, wish);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    tell(i, candidates.size());
    Outcome outcome = Run(target.machine, candidates[i], wish.nodes_stand_in);
    if (!best || outcome.result.duration_us < best->result.duration_us) best = std::move(outcome);
  }
  if (!best) {
    ThrowUsage("no requested algorithm supports {} on {} ranks", schedule::NameOf(wish.collective),
               target.machine.nranks());
  }
  return *best;
}

}  // namespace tutti::tools
