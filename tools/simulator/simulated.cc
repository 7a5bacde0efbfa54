#include "tools/simulator/simulated.h"

#include <algorithm>
#include <utility>

#include "algorithms/builders/build.h"
#include "base/error.h"
#include "selection/cost_model/candidates.h"
#include "selection/simulator/fold.h"

namespace tutti::tools {
namespace {

// Prices are accurate enough that candidates above this multiple of the lowest price cannot be the fastest.
constexpr double kWorthSimulating = 2;

TuningContext ConditionsOf(const Target& target, const Wish& wish) {
  TuningContext tuning = tools::ConditionsOf(target);
  tuning.forced.channels = wish.channels;
  tuning.max_channels = std::max(tuning.max_channels, wish.channels);
  tuning.forced.wire = wish.wire;
  tuning.forced.chunk_bytes = wish.chunk_bytes;
  if (wish.program != nullptr) {
    tuning.programs[static_cast<std::size_t>(wish.collective)] = wish.program;
    tuning.forced.channels = 1;  // it has its own channels
  }
  return tuning;
}

int PiecesOf(tuttiAlgorithm_t algorithm, const TuningContext& tuning, const Wish& wish) {
  if (algorithm == tuttiAlgorithmProgram) return wish.program->front().pieces();
  return Build(algorithm, tuning.Ask(wish.collective))->pieces();
}

}  // namespace

std::size_t BytesOfBlock(Collective collective, std::size_t bytes, int ranks) {
  return HasBlocksOfRanks(collective) ? std::max<std::size_t>(1, bytes / static_cast<std::size_t>(ranks)) : bytes;
}

double BusFactor(Collective collective, int ranks) {
  const double n = ranks;
  if (collective == Collective::all_reduce) return 2 * (n - 1) / n;
  return collective == Collective::broadcast || collective == Collective::reduce ? 1 : (n - 1) / n;
}

double AlgorithmBandwidth(std::size_t bytes, double us) {
  constexpr double kBytesPerGBus = 1e3;
  return us > 0 ? static_cast<double>(bytes) / us / kBytesPerGBus : 0;
}

std::vector<SimulatedCall> Candidates(const Target& target, const Wish& wish) {
  const TuningContext tuning = ConditionsOf(target, wish);
  const Kind kind{wish.collective};
  const std::size_t bytes = BytesOfBlock(wish.collective, wish.bytes, tuning.nranks);
  const auto wanted = wish.program != nullptr ? std::vector{tuttiAlgorithmProgram} : wish.algorithms;
  std::vector<Candidate> candidates;
  for (int a = tuttiAlgorithmNone + 1; a < tuttiNumAlgorithms; ++a) {
    const auto algorithm = static_cast<tuttiAlgorithm_t>(a);
    const bool named = std::find(wanted.begin(), wanted.end(), algorithm) != wanted.end();
    if (!wanted.empty() && !named) continue;
    const auto why_not = named ? WhyImpossible(algorithm, kind, tuning) : WhyNot(algorithm, kind, tuning);
    if (!why_not.empty()) continue;
    const std::size_t block = BlockBytes(PiecesOf(algorithm, tuning, wish), bytes);
    const auto ways = WaysToMove(algorithm, kind, tuning, block);
    candidates.insert(candidates.end(), ways.begin(), ways.end());
  }
  if (wanted.empty() && !candidates.empty()) {
    Pricing pricing(target.machine, tuning);
    std::vector<double> prices;
    for (const auto& candidate : candidates) prices.push_back(pricing.Microseconds(candidate, kind, bytes));
    const double enough = kWorthSimulating * *std::min_element(prices.begin(), prices.end());
    std::size_t index = 0;
    std::erase_if(candidates, [&](const Candidate&) { return prices[index++] > enough; });
  }
  std::vector<SimulatedCall> calls;
  for (const auto& candidate : candidates) {
    calls.push_back(
        {wish.collective, candidate.algorithm, bytes, candidate.channels, candidate.shape, 0, 0, wish.program});
  }
  return calls;
}

Outcome Run(const Machine& machine, const SimulatedCall& call, Folds folds, Timeline* timeline) {
  Outcome outcome{call, {}, std::nullopt};
  if (folds != Folds::never) {
    auto folding = Fold(call.algorithm, call.collective, machine.rank_layout());
    const bool exact = folding && folding->classes() == 1;
    if (machine.nranks() > kRanksInFull || (exact && folds == Folds::wherever_exact)) {
      outcome.folding = std::move(folding);
    }
  }
  outcome.result = Simulate(machine, call, outcome.folding ? &*outcome.folding : nullptr, timeline);
  return outcome;
}

Outcome Fastest(const Target& target, const Wish& wish) {
  std::optional<Outcome> best;
  for (const SimulatedCall& call : Candidates(target, wish)) {
    Outcome outcome = Run(target.machine, call, wish.folds);
    if (!best || outcome.result.duration_us < best->result.duration_us) best = std::move(outcome);
  }
  if (!best) {
    Throw(tuttiInvalidArgument, "no algorithm asked for has a form of {} on {} ranks", NameOf(wish.collective),
          target.machine.nranks());
  }
  return *best;
}

}  // namespace tutti::tools
