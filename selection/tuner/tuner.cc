#include "selection/tuner/tuner.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "algorithms/builders/records.h"
#include "base/threads/quiet_thread.h"

namespace tutti::tuner {
namespace {

// Sizes that are priced: powers of two; between them times are smooth.
constexpr std::size_t kLargestPriced = std::size_t{1} << 32;
// A change of plan must be predicted to gain this much: predictions are no more accurate.
constexpr double kWorthChanging = 0.97;
// Among plans that differ by less, the one with the fewest pieces is taken: each piece is a chance to wait.
constexpr double kAlike = 1.15;
// Breakpoints are found to a sixteenth of their size.
constexpr std::size_t kBreakpointParts = 16;
// Between two powers of two. There chunks become shorter one after the other as slots outgrow a cache, and candidates.cc
// has six lengths.
constexpr int kMostChanges = 8;
// The size at which a pairwise exchange is priced: its lengths are unknown, and the plan must not depend on them.
constexpr std::size_t kPairwiseBytes = 64 * 1024;

// Pieces of one launch do not wait for each other. Among its plans that differ by less, one with many channels is taken
// while a channel moves more than so much: on an H100, 264 thread blocks reach 94 % of the copy's bandwidth, 96 reach 92
// and 48 reach 77 (docs/notebook/gpu/kernel.md, 1 GiB), where the model takes 96 for enough.
constexpr double kAlikeInOneLaunch = 1.01;
constexpr std::size_t kLittleOfAChannel = std::size_t{64} << 10;
double AlikeOf(tuttiAlgorithm_t algorithm) {
  return builders::RecordOf(algorithm).needs.one_launch ? kAlikeInOneLaunch : kAlike;
}

// Number of chunks of all channels, for blocks of `block` bytes. In one launch, of a channel.
std::size_t Pieces(const cost_model::Candidate& way, const cost_model::CostModel& cost_model, std::size_t block) {
  if (builders::RecordOf(way.algorithm).needs.one_launch)
    return block / static_cast<std::size_t>(way.channels) / kLittleOfAChannel;
  const auto channels = static_cast<std::size_t>(way.channels * cost_model.unit().channels);
  const std::size_t share = (block + channels - 1) / channels;
  return channels * std::max<std::size_t>(1, (share + way.config.chunk_bytes - 1) / way.config.chunk_bytes);
}

}  // namespace

const cost_model::CostModel& Tuner::CostModelOf(tuttiAlgorithm_t algorithm, schedule::Collective collective) {
  auto& model = cost_models_[{algorithm, collective}];
  if (model == nullptr) {
    const auto* program = tuning_.programs[static_cast<std::size_t>(collective)];
    model = std::make_unique<cost_model::CostModel>(
        machine_, builders::RecordOf(algorithm).from_file()
                      ? cost_model::RepresentativeRanks::Of(*program)
                      : *cost_model::RepresentativeRanks::Of(algorithm, tuning_.Ask(collective)));
  }
  return *model;
}

// Input and output of all ranks of the fullest node.
std::size_t Tuner::Footprint(schedule::Collective collective, std::size_t bytes) const {
  const std::size_t ranks = machine_.ranks_of_fullest_node();
  const auto n = static_cast<std::size_t>(tuning_.nranks);
  const Pattern& pattern = PatternOf(collective);
  // All blocks of the root, and one of every rank.
  if (pattern.has_root() && pattern.has_blocks_of_ranks()) return 2 * n * bytes;
  const auto blocks = [&](const Side& side) { return side.part == Part::all ? n : 1; };
  return (blocks(pattern.input) + blocks(pattern.output)) * bytes * ranks;
}

double Tuner::Microseconds(const cost_model::Candidate& candidate, const cost_model::Kind& kind, std::size_t bytes) {
  const cost_model::CostModel& cost_model = CostModelOf(candidate.algorithm, kind.collective);
  const std::size_t block = cost_model::BlockBytes(cost_model.unit().pieces, bytes);
  const std::size_t footprint = Footprint(kind.collective, bytes);
  return cost_model.Microseconds(
      {.block_bytes = block,
       .footprint = footprint,
       .channels = candidate.channels,
       .config = cost_model::Fitting(candidate.config, block, candidate.channels * cost_model.unit().channels),
       .streamed = footprint > tuning_.stream_bytes,
       .low_precision = kind.low_precision});
}

Estimate Tuner::Best(tuttiAlgorithm_t algorithm, const cost_model::Kind& kind, std::size_t bytes) {
  const cost_model::CostModel& cost_model = CostModelOf(algorithm, kind.collective);
  const std::size_t block = cost_model::BlockBytes(cost_model.unit().pieces, bytes);
  const auto ways = cost_model::WaysToMove(algorithm, kind, tuning_, bytes, cost_model.unit());
  std::vector<double> us;
  for (const auto& way : ways) us.push_back(Microseconds(way, kind, bytes));
  const double alike = AlikeOf(algorithm) * *std::min_element(us.begin(), us.end());
  // A copying plan is preferred to a fetching one that is alike: the price of fetches differs most between systems.
  const auto preference = [&](std::size_t i) {
    return std::tuple(ways[i].config.cma, Pieces(ways[i], cost_model, block), us[i]);
  };
  std::size_t best = ways.size();
  for (std::size_t i = 0; i < ways.size(); ++i) {
    if (us[i] <= alike && (best == ways.size() || preference(i) < preference(best))) best = i;
  }
  return {algorithm, "", ways[best], us[best]};
}

std::vector<Estimate> Tuner::Compare(const cost_model::Kind& kind, std::size_t bytes) {
  std::vector<Estimate> all;
  for (const auto algorithm : builders::kAllAlgorithms) {
    const auto why_not = cost_model::WhyNot(algorithm, kind, tuning_);
    all.push_back(why_not.empty() ? Best(algorithm, kind, bytes) : Estimate{algorithm, why_not});
  }
  std::stable_sort(all.begin(), all.end(), [](const Estimate& a, const Estimate& b) {
    return a.why_not.empty() != b.why_not.empty() ? a.why_not.empty() : a.us < b.us;
  });
  return all;
}

std::vector<Estimate> Tuner::Offers(const cost_model::Kind& kind, std::size_t bytes) {
  std::vector<Estimate> offers;
  for (const auto algorithm : builders::kAllAlgorithms) {
    if (!cost_model::WhyNot(algorithm, kind, tuning_).empty()) continue;
    const cost_model::CostModel& cost_model = CostModelOf(algorithm, kind.collective);
    for (const auto& way : cost_model::WaysToMove(algorithm, kind, tuning_, bytes, cost_model.unit())) {
      const double us = Microseconds(way, kind, bytes);
      const auto alike = std::find_if(offers.begin(), offers.end(), [&](const Estimate& offer) {
        return offer.algorithm == algorithm && offer.candidate.channels == way.channels &&
               offer.candidate.config.protocol == way.config.protocol;
      });
      if (alike == offers.end()) {
        offers.push_back({algorithm, "", way, us});
      } else if (us < alike->us) {
        *alike = {algorithm, "", way, us};
      }
    }
  }
  return offers;
}

// The best candidate of this size, if it beats `incumbent` by enough, is preferred among those that are alike, or the
// incumbent's slots are too short.
std::optional<Estimate> Tuner::Better(const cost_model::Candidate& incumbent, const cost_model::Kind& kind,
                                      std::size_t bytes) {
  Estimate best = Compare(kind, bytes).front();
  if (best.candidate == incumbent) return std::nullopt;
  const cost_model::CostModel& cost_model = CostModelOf(incumbent.algorithm, kind.collective);
  const std::size_t block = cost_model::BlockBytes(cost_model.unit().pieces, bytes);
  if (cost_model::Fitting(incumbent.config, block, incumbent.channels * cost_model.unit().channels) != incumbent.config)
    return best;
  const auto preference = [&](const cost_model::Candidate& way) {
    return std::pair(way.config.cma, Pieces(way, cost_model, block));
  };
  const bool preferred =
      best.candidate.algorithm == incumbent.algorithm && preference(best.candidate) < preference(incumbent);
  const double us = Microseconds(incumbent, kind, bytes);
  if (best.us > (preferred ? AlikeOf(incumbent.algorithm) : kWorthChanging) * us) return std::nullopt;
  return best;
}

std::vector<TableEntry> Tuner::MakeRow(const cost_model::Kind& kind) {
  const std::size_t first = kind.pairwise ? kPairwiseBytes : 1;
  const Estimate smallest = Compare(kind, first).front();
  std::vector<TableEntry> row = {{0, smallest.candidate, smallest.us}};
  if (kind.pairwise) return row;
  for (std::size_t bytes = 2 * first; bytes <= kLargestPriced; bytes *= 2) {
    std::size_t stays = bytes / 2;
    // The plan that takes over between two powers of two need not be the best one at the second: a price jumps where
    // buffers and slots outgrow a cache.
    for (int change = 0; change < kMostChanges; ++change) {
      auto better = Better(row.back().candidate, kind, bytes);
      if (!better) break;
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
      if (changes == bytes) break;
      stays = changes;
    }
  }
  return row;
}

void Tuner::Complete(SelectionTable& table, int threads) {
  const auto& kinds = cost_model::AllKinds();
  std::vector<std::vector<TableEntry>> rows(kinds.size());
  // Kinds of one collective share prices, so the thread that takes a collective prices all of its kinds.
  std::atomic<int> next{0};
  std::mutex failing;
  std::exception_ptr failure;
  const auto price_collectives = [&](Tuner& tuner) {
    try {
      for (int c = next++; c < schedule::kScheduledCollectives; c = next++) {
        for (std::size_t k = 0; k < kinds.size(); ++k) {
          const bool mine = kinds[k].collective == static_cast<schedule::Collective>(c);
          if (mine && !table.Has(kinds[k])) rows[k] = tuner.MakeRow(kinds[k]);
        }
      }
    } catch (...) {
      const std::lock_guard lock(failing);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  try {
    for (int i = 1; i < std::min(threads, schedule::kScheduledCollectives); ++i) {
      helpers.push_back(QuietThread([&] {
        Tuner own(machine_, tuning_);
        price_collectives(own);
      }));
    }
  } catch (const std::system_error&) {
    // No more threads are available: the existing ones do all the work.
  }
  price_collectives(*this);
  for (auto& helper : helpers) helper.join();
  if (failure != nullptr) std::rethrow_exception(failure);
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    if (!table.Has(kinds[k])) table.Set(kinds[k], std::move(rows[k]));
  }
}

}  // namespace tutti::tuner
