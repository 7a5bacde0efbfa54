#include "algorithms/select.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tutti {
namespace {

// Sizes that are priced: powers of two; between them times are smooth.
constexpr std::size_t kLargestPriced = std::size_t{1} << 32;
// A change of plan must be worth it: predictions are no better than this.
constexpr double kWorthChanging = 0.97;
// Breakpoints are found to a sixteenth of their size.
constexpr std::size_t kBreakpointParts = 16;
// What a pairwise exchange is priced at: nobody knows, and the plan must not depend on it.
constexpr std::size_t kPairwiseBytes = 64 * 1024;

}  // namespace

const Price& Pricing::PriceOf(tuttiAlgorithm_t algorithm, Collective collective) {
  auto& price = prices_[{algorithm, collective}];
  if (price == nullptr) {
    const auto* program = conditions_.programs[static_cast<std::size_t>(collective)];
    price = std::make_unique<Price>(machine_, algorithm == tuttiAlgorithmProgram
                                                  ? Ensemble::Of(*program)
                                                  : *Ensemble::Of(algorithm, conditions_.Ask(collective)));
  }
  return *price;
}

// Input and output of all ranks of the fullest node.
std::size_t Pricing::Footprint(Collective collective, std::size_t bytes) const {
  std::size_t ranks = 0;
  for (const auto& node : machine_.arrangement().ranks_on) ranks = std::max(ranks, node.size());
  const auto n = static_cast<std::size_t>(conditions_.nranks);
  switch (collective) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce: return 2 * bytes * ranks;
    case Collective::all_to_all: return 2 * n * bytes * ranks;
    case Collective::gather:
    case Collective::scatter: return 2 * n * bytes;
    default: return (n + 1) * bytes * ranks;
  }
}

double Pricing::Microseconds(const Candidate& candidate, const Kind& kind, std::size_t bytes) {
  const Price& price = PriceOf(candidate.algorithm, kind.collective);
  const std::size_t block = BlockBytes(price.pieces(), bytes);
  return price.Microseconds({.block_bytes = block,
                             .footprint = Footprint(kind.collective, bytes),
                             .channels = candidate.channels,
                             .shape = Fitting(candidate.shape, block, candidate.channels * price.unit_channels())});
}

Priced Pricing::Best(tuttiAlgorithm_t algorithm, const Kind& kind, std::size_t bytes) {
  Priced best{algorithm};
  Conditions conditions = conditions_;
  const Price& price = PriceOf(algorithm, kind.collective);
  // Some algorithms take several channels at once.
  const auto unit = FabricChannels(algorithm);
  conditions.max_channels = std::max(1, conditions.max_channels / unit);
  if (conditions.threads > 0) conditions.threads = std::max(1, conditions.threads / unit);
  if (conditions.forced.channels > 0) conditions.forced.channels = std::max(1, conditions.forced.channels / unit);
  const std::size_t block = BlockBytes(price.pieces(), bytes);
  for (const auto& way : WaysToMove(algorithm, kind, conditions, (block + unit - 1) / unit)) {
    const double us = Microseconds(way, kind, bytes);
    if (best.us != 0 && us >= best.us) continue;
    best.candidate = way;
    best.us = us;
  }
  return best;
}

std::vector<Priced> Pricing::Compare(const Kind& kind, std::size_t bytes) {
  std::vector<Priced> all;
  for (int i = tuttiAlgorithmNone + 1; i < tuttiNumAlgorithms; ++i) {
    const auto algorithm = static_cast<tuttiAlgorithm_t>(i);
    const auto why_not = WhyNot(algorithm, kind, conditions_);
    all.push_back(why_not.empty() ? Best(algorithm, kind, bytes) : Priced{algorithm, why_not});
  }
  std::stable_sort(all.begin(), all.end(), [](const Priced& a, const Priced& b) {
    return a.why_not.empty() != b.why_not.empty() ? a.why_not.empty() : a.us < b.us;
  });
  return all;
}

// The best of this size, if it differs from `incumbent` by enough to change, or that one's slots are too short.
std::optional<Priced> Pricing::Better(const Candidate& incumbent, const Kind& kind, std::size_t bytes) {
  Priced best = Compare(kind, bytes).front();
  if (best.candidate == incumbent) return std::nullopt;
  const Price& price = PriceOf(incumbent.algorithm, kind.collective);
  const std::size_t block = BlockBytes(price.pieces(), bytes);
  if (Fitting(incumbent.shape, block, incumbent.channels * price.unit_channels()) != incumbent.shape) return best;
  if (best.us > kWorthChanging * Microseconds(incumbent, kind, bytes)) return std::nullopt;
  return best;
}

std::vector<TableEntry> Pricing::MakeRow(const Kind& kind) {
  const std::size_t first = kind.pairwise ? kPairwiseBytes : 1;
  const Priced smallest = Compare(kind, first).front();
  std::vector<TableEntry> row = {{0, smallest.candidate, smallest.us}};
  if (kind.pairwise) return row;
  for (std::size_t bytes = 2 * first; bytes <= kLargestPriced; bytes *= 2) {
    auto better = Better(row.back().candidate, kind, bytes);
    if (!better) continue;
    std::size_t stays = bytes / 2;
    std::size_t changes = bytes;
    while (changes - stays > stays / kBreakpointParts + 1) {
      const std::size_t middle = std::midpoint(stays, changes);
      if (auto there = Better(row.back().candidate, kind, middle)) {
        better = std::move(there);
        changes = middle;
      } else {
        stays = middle;
      }
    }
    row.push_back({changes, better->candidate, better->us});
  }
  return row;
}

void Pricing::Complete(SelectionTable& table) {
  for (const auto& kind : AllKinds()) {
    if (!table.Has(kind)) table.Set(kind, MakeRow(kind));
  }
}

}  // namespace tutti
