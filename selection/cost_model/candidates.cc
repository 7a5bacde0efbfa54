#include "selection/cost_model/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/numbers/rounding.h"
#include "base/settings/nearest_name.h"
#include "base/threads/made_once.h"
#include "base/usage_error.h"

namespace tutti::cost_model {
namespace {

constexpr std::size_t KiB = 1024;

// Tried for the bulk protocol. Below, a step's cost shows; above, a slot no longer fits a core's cache. In between, the
// slots of all connections compete for the last-level cache.
constexpr std::array kChunks = {8 * KiB, 16 * KiB, 32 * KiB, 64 * KiB, 128 * KiB, 512 * KiB};
// Shapes tried on GPUs. At the host's depths (slot.h), all channels of the longest bulk slots take 48 MiB a peer.
constexpr std::array<schedule::ProtocolConfig, 7> kGpuConfigs = {{
    {ring::Protocol::line, 2 * KiB},
    {ring::Protocol::line, 8 * KiB},
    {ring::Protocol::inlined, 16 * KiB},
    {ring::Protocol::inlined, 64 * KiB},
    {ring::Protocol::bulk, 32 * KiB},
    {ring::Protocol::bulk, 128 * KiB},
    {ring::Protocol::bulk, 512 * KiB},
}};
constexpr std::array kGpuChannels = {1, 4, 12, 24, kMostGpuChannels, 48, kMostChannelsOfOneGpu};
// A pipeline of more chunks than this is in its steady state: smaller chunks only cost more steps.
constexpr std::size_t kMostChunks = 256;
// The most pieces in which a short-message protocol carries a longer message; beyond that, bulk is better everywhere.
constexpr std::size_t kMaxShortChunks = 8;

bool RoundsOnce(const builders::Record& record, const TuningContext& tuning) {
  switch (record.rounding) {
    case builders::Rounding::in_rank_order: return true;
    case builders::Rounding::once_in_a_node: return tuning.where.nodes() <= 1;
    case builders::Rounding::on_the_way: break;
  }
  return false;
}

// Numbers of units to try; a channel carries `unit_bytes` of every block, divided by their number. `of_fabric`:
// MostChannels().
std::vector<int> ChannelCounts(const TuningContext& tuning, int of_fabric, const Unit& unit, std::size_t unit_bytes) {
  const int each = unit.channels_of_fabric;
  int most = std::max(1, of_fabric / each);
  // A count that the user forces is not fitted to the GPU: a launch refuses it with the numbers.
  if (tuning.forced.channels != 0) return {std::clamp(tuning.forced.channels / each, 1, most)};
  if (tuning.most_lanes != 0) most = std::clamp(tuning.most_lanes / unit.lanes, 1, most);
  if (tuning.forced.most_channels != 0) most = std::clamp(tuning.forced.most_channels / each, 1, most);
  const int least = std::clamp((tuning.forced.least_channels + each - 1) / each, 1, most);
  if (tuning.threads == 0) {
    std::vector<int> counts;
    for (const int count : kGpuChannels) {
      const int asked = std::clamp(count / each, least, most);
      if (counts.empty() || counts.back() != asked) counts.push_back(asked);
    }
    return counts;
  }
  // One channel per thread, once each channel gets at least a line.
  const int threads = std::clamp(tuning.threads / each, least, most);
  if (threads == least || unit_bytes / static_cast<std::size_t>(threads) < ring::kCacheLine) return {least};
  return {least, threads};
}

// The protocol that the user forces, where GPUs can carry such a call by it. Block lengths that only pairs of ranks know
// need bulk slots, and so does a switch: it adds whatever is in a slot, so no flags may be among the data.
std::optional<ring::Protocol> ForcedOnGpus(tuttiAlgorithm_t algorithm, const Kind& kind, const TuningContext& tuning) {
  if (kind.pairwise || builders::RecordOf(algorithm).needs.a_switch) return ring::Protocol::bulk;
  const auto& forced = tuning.forced.protocol;
  if (forced == ring::Protocol::line && !tuning.gpu_slots.lines) return ring::Protocol::bulk;
  if (forced == ring::Protocol::inlined && !tuning.gpu_slots.inlines) return ring::Protocol::bulk;
  return forced;
}

// Whether the user leaves the protocol out, and GPUs have another one for such a call.
bool LeftOutOnGpus(ring::Protocol protocol, const std::optional<ring::Protocol>& forced, const TuningContext& tuning) {
  if (forced || tuning.forced.without != protocol) return false;
  return protocol != ring::Protocol::bulk || tuning.gpu_slots.lines || tuning.gpu_slots.inlines;
}

// Shapes in which GPUs could move a channel's share of every block.
std::vector<schedule::ProtocolConfig> GpuConfigs(tuttiAlgorithm_t algorithm, const Kind& kind,
                                                 const TuningContext& tuning, std::size_t share, bool refers) {
  const Forced& forced = tuning.forced;
  const auto protocol = ForcedOnGpus(algorithm, kind, tuning);
  // There must be one shape for any share, whatever protocol is forced: its longest.
  const schedule::ProtocolConfig last =
      *std::find_if(kGpuConfigs.rbegin(), kGpuConfigs.rend(), [&](const auto& config) {
        if (LeftOutOnGpus(config.protocol, protocol, tuning)) return false;
        if (config.protocol == ring::Protocol::inlined && !tuning.gpu_slots.inlines && !protocol) return false;
        return !protocol || config.protocol == *protocol;
      });
  std::vector<schedule::ProtocolConfig> configs;
  for (schedule::ProtocolConfig config : kGpuConfigs) {
    if (protocol && *protocol != config.protocol) continue;
    if (LeftOutOnGpus(config.protocol, protocol, tuning)) continue;
    if (config.protocol == ring::Protocol::inlined && !tuning.gpu_slots.inlines) continue;
    if (config.protocol == ring::Protocol::line && !tuning.gpu_slots.lines) continue;
    const bool longest = config == last;
    if (forced.chunk_bytes != 0)
      config.chunk_bytes = std::max(ring::kCacheLine, RoundDown(forced.chunk_bytes, ring::kCacheLine));
    config.chunk_bytes = std::min(config.chunk_bytes, ChunkCapacity(config.protocol, tuning, refers));
    if (builders::RecordOf(algorithm).needs.a_switch && tuning.gpu_slots.in_switch != 0)
      config.chunk_bytes = std::min(config.chunk_bytes, tuning.gpu_slots.in_switch);
    // Chunks beyond a whole share are all the same.
    const bool same = !configs.empty() && configs.back().protocol == config.protocol &&
                      (configs.back().chunk_bytes >= share || configs.back().chunk_bytes == config.chunk_bytes);
    if (same || (share / config.chunk_bytes > kMostChunks && forced.chunk_bytes == 0 && !longest)) continue;
    configs.push_back(config);
  }
  return configs;
}

// Likewise for a host's ranks.
std::vector<schedule::ProtocolConfig> HostConfigs(const Kind& kind, const TuningContext& tuning, std::size_t share) {
  const Forced& forced = tuning.forced;
  const std::size_t most = RoundDown(tuning.bulk_capacity, ring::kCacheLine);
  std::vector<schedule::ProtocolConfig> configs;
  const auto short_protocol = [&](ring::Protocol protocol, const ring::SlotShape& shape) {
    if (kind.pairwise || forced.without == protocol ||
        (forced.protocol ? *forced.protocol != protocol : forced.chunk_bytes != 0 && share > shape.capacity))
      return;
    const bool whole = share <= shape.capacity;
    const std::size_t chunk = whole ? shape.capacity : RoundDown(shape.capacity, ring::kCacheLine);
    // A line holds no multiple of a line besides its flag, so it takes whole blocks only.
    const bool only = forced.protocol || forced.without == ring::Protocol::bulk;
    if (chunk == 0 || (!only && share > chunk * kMaxShortChunks)) return;
    configs.push_back({protocol, chunk});
  };
  short_protocol(ring::Protocol::line, ring::kLineShape);
  short_protocol(ring::Protocol::inlined, ring::kInlineShape);
  const bool no_bulk =
      forced.without == ring::Protocol::bulk || (forced.protocol && *forced.protocol != ring::Protocol::bulk);
  if (no_bulk && !configs.empty()) return configs;
  const auto bulk = [&](std::size_t chunk) {
    if (!tuning.cma || !forced.cma.value_or(false)) configs.push_back({ring::Protocol::bulk, chunk});
    if (tuning.cma && forced.cma.value_or(true)) configs.push_back({ring::Protocol::bulk, chunk, true});
  };
  if (forced.chunk_bytes != 0) {
    bulk(std::clamp(RoundDown(forced.chunk_bytes, ring::kCacheLine), ring::kCacheLine, most));
    return configs;
  }
  for (const std::size_t chunk : kChunks) {
    bulk(std::min(chunk, most));
    if (chunk >= share || chunk >= most) break;  // larger ones would be the same
  }
  return configs;
}

}  // namespace

const std::vector<Kind>& AllKinds() {
  static constinit MadeOnce<const std::vector<Kind>> kinds;
  return kinds.Get([] {
    auto all = std::make_unique<std::vector<Kind>>();
    for (int c = 0; c < schedule::kScheduledCollectives; ++c) {
      const auto collective = static_cast<schedule::Collective>(c);
      all->push_back({collective});
      if (schedule::IsReducing(collective)) all->push_back({collective, true});
      if (schedule::HasBlocksOfPairs(collective)) all->push_back({collective, false, true});
    }
    return all;
  });
}

int IndexOf(const Kind& kind) {
  const auto& kinds = AllKinds();
  return static_cast<int>(std::find(kinds.begin(), kinds.end(), kind) - kinds.begin());
}

std::string ToString(const Kind& kind) {
  return fmt::format("{}{}{}", schedule::NameOf(kind.collective), kind.low_precision ? ", low precision" : "",
                     kind.pairwise ? ", pairwise" : "");
}

schedule::Collective ParseCollective(std::string_view word) {
  if (const auto collective = ScheduledCollectiveNamed(word)) return *collective;
  std::vector<std::string_view> names;
  for (int c = 0; c < schedule::kScheduledCollectives; ++c)
    names.push_back(kCollectives[static_cast<std::size_t>(c)].name);
  throw UsageError(UnknownName("collective", word, names));
}

std::string WhyImpossible(tuttiAlgorithm_t algorithm, const Kind& kind, const TuningContext& tuning) {
  const auto& record = builders::RecordOf(algorithm);
  if (record.needs.one_launch && !tuning.one_launch) return "does not support ranks that share no process and GPU";
  if (record.needs.a_switch) {
    if (!tuning.in_switch) return "does not support ranks without a switch that adds between their GPUs (NVLink SHARP)";
    if (tuning.where.nodes() > 1 && !Has(record.across_switches, kind.collective)) {
      return "does not support ranks at several switches";
    }
  }
  if ((tuning.without_room[static_cast<std::size_t>(kind.collective)] & SetOf(algorithm)) != 0) {
    return fmt::format("needs more thread blocks than a GPU has for each of its ranks ({})", tuning.most_lanes);
  }
  if (record.from_file()) {
    const auto* program = tuning.programs[static_cast<std::size_t>(kind.collective)];
    if (program == nullptr) return "does not support it: TUTTI_PROGRAM names no program for it";
    return kind.pairwise ? "does not support block lengths that only pairs of ranks know" : "";
  }
  if (!Has(record.forms, kind.collective)) return fmt::format("has no {}", schedule::NameOf(kind.collective));
  if (!builders::Supports(algorithm, kind.collective, tuning.nranks)) return "does not support so many ranks";
  if (kind.pairwise && Has(record.passes_blocks_on, kind.collective))
    return "forwards blocks whose lengths only other ranks know";
  if (!tuning.one_host && record.needs.posts) return "needs all ranks on one host";
  if (schedule::IsReducing(kind.collective) && tuning.deterministic &&
      record.rounding != builders::Rounding::in_rank_order) {
    return "is not deterministic: it sums in another order and rounds more than once";
  }
  return "";
}

namespace {

bool Allows(tuttiAlgorithm_t algorithm, const Kind& kind, const TuningContext& tuning) {
  return (tuning.forced.allowed[static_cast<std::size_t>(kind.collective)] & SetOf(algorithm)) != 0;
}

// Whether an algorithm that the user leaves to choose among sums so that nothing is rounded on its way.
bool SomeRoundsOnce(const Kind& kind, const TuningContext& tuning) {
  return std::ranges::any_of(builders::kAllAlgorithms, [&](tuttiAlgorithm_t algorithm) {
    const auto& record = builders::RecordOf(algorithm);
    return record.rounding == builders::Rounding::in_rank_order && Allows(algorithm, kind, tuning) &&
           WhyImpossible(algorithm, kind, tuning).empty();
  });
}

// WhyNot, but for the algorithms that the user leaves to choose among.
std::string WhyNotByItself(tuttiAlgorithm_t algorithm, const Kind& kind, const TuningContext& tuning) {
  if (auto why = WhyImpossible(algorithm, kind, tuning); !why.empty()) return why;
  const auto forced = tuning.forced.algorithm[static_cast<std::size_t>(kind.collective)];
  if (forced && WhyImpossible(*forced, kind, tuning).empty()) {
    return *forced == algorithm ? "" : fmt::format("{} is forced", builders::NameOf(*forced));
  }
  const auto& record = builders::RecordOf(algorithm);
  if (record.baseline) return "is a baseline, used only if forced";
  if (record.needs.nodes && tuning.where.nodes() <= 1) return "needs several nodes; there is one";
  if (schedule::IsReducing(kind.collective) && kind.low_precision && !RoundsOnce(record, tuning) &&
      SomeRoundsOnce(kind, tuning)) {
    return "rounds partial sums to a low-precision type";
  }
  return record.too_long_to_price == nullptr ? ""
                                             : std::string(record.too_long_to_price(kind.collective, tuning.nranks));
}

}  // namespace

std::string WhyNot(tuttiAlgorithm_t algorithm, const Kind& kind, const TuningContext& tuning) {
  if (auto why = WhyNotByItself(algorithm, kind, tuning); !why.empty() || Allows(algorithm, kind, tuning)) return why;
  for (const auto other : builders::kAllAlgorithms) {
    if (Allows(other, kind, tuning) && WhyNotByItself(other, kind, tuning).empty()) return "is left out by TUTTI_ALGO";
  }
  return "";
}

int ThreadsFor(int cores, int ranks) { return std::clamp(cores / std::max(1, ranks), 1, kFewestChannels); }

std::size_t TuningContext::ranks_of_a_cache() const {
  std::size_t most = 0;
  if (domains || !one_host) {
    for (const auto& ranks : where.ranks_on) most = std::max(most, ranks.size());
  }
  return most != 0 ? most : static_cast<std::size_t>(nranks);
}

namespace {

// The algorithms that need more lanes than a GPU runs. None where that may leave nothing for some call: then the launch
// refuses it with the numbers.
AlgorithmSet WithoutRoom(schedule::Collective collective, const TuningContext& tuning) {
  AlgorithmSet without = 0;
  bool some_fit = false;
  for (const auto algorithm : builders::kAllAlgorithms) {
    const auto& record = builders::RecordOf(algorithm);
    if (tuning.most_lanes >= kMostLanesOfAUnit && !record.needs.one_launch) {
      some_fit = true;
      continue;
    }
    if (record.from_file() || !builders::Supports(algorithm, collective, tuning.nranks)) continue;
    if (record.too_long_to_price != nullptr && !record.too_long_to_price(collective, tuning.nranks).empty()) continue;
    const auto representatives = RepresentativeRanks::Of(algorithm, tuning.Ask(collective));
    if (representatives->unit().lanes > tuning.most_lanes) {
      without |= SetOf(algorithm);
    } else {
      const bool in_any_order = !tuning.deterministic || !schedule::IsReducing(collective);
      some_fit = some_fit ||
                 (!record.baseline && record.needs == builders::Needs{} && !Has(record.passes_blocks_on, collective) &&
                  (in_any_order || record.rounding == builders::Rounding::in_rank_order));
    }
  }
  return some_fit ? without : 0;
}

}  // namespace

void FitToGpus(int blocks, int sharing, bool one_gpu, TuningContext& tuning) {
  tuning.threads = 0;
  tuning.cma = false;
  tuning.most_lanes = std::max(1, blocks / sharing);
  tuning.max_channels =
      std::clamp(tuning.most_lanes, kFewestChannels, one_gpu ? kMostChannelsOfOneGpu : kMostGpuChannels);
  for (int c = 0; c < schedule::kScheduledCollectives; ++c) {
    tuning.without_room[static_cast<std::size_t>(c)] = WithoutRoom(static_cast<schedule::Collective>(c), tuning);
  }
}

std::size_t SlotCapacity(ring::Protocol protocol, const TuningContext& tuning) {
  if (tuning.threads == 0) {
    const GpuSlots& slots = tuning.gpu_slots;
    const std::size_t known = protocol == ring::Protocol::line      ? slots.line
                              : protocol == ring::Protocol::inlined ? slots.inlined
                                                                    : slots.bulk;
    return known != 0 ? known : std::numeric_limits<std::size_t>::max();
  }
  switch (protocol) {
    case ring::Protocol::line: return ring::kLineShape.capacity;
    case ring::Protocol::inlined: return ring::kInlineShape.capacity;
    case ring::Protocol::bulk: break;
  }
  return tuning.bulk_capacity;
}

std::size_t ChunkCapacity(ring::Protocol protocol, const TuningContext& tuning, bool may_refer) {
  const bool any = protocol == ring::Protocol::bulk && may_refer && tuning.gpu_slots.refer;
  return any ? kLongestChunk : SlotCapacity(protocol, tuning);
}

std::size_t BlockBytes(int pieces, std::size_t bytes) {
  if (pieces <= 1) return bytes;
  return RoundUp((bytes + pieces - 1) / static_cast<std::size_t>(pieces), ring::kCacheLine);
}

schedule::ProtocolConfig Fitting(schedule::ProtocolConfig config, std::size_t block_bytes, int channels) {
  // A channel's share begins on a line.
  const std::size_t share =
      channels == 1 ? block_bytes : RoundUp((block_bytes + channels - 1) / channels, ring::kCacheLine);
  if (share <= config.chunk_bytes || config.chunk_bytes % ring::kCacheLine == 0) return config;
  if (config.protocol == ring::Protocol::line)
    return Fitting({ring::Protocol::inlined, ring::kInlineShape.capacity}, block_bytes, channels);
  config.chunk_bytes = RoundDown(config.chunk_bytes, ring::kCacheLine);
  return config;
}

int MostChannels(tuttiAlgorithm_t algorithm, const TuningContext& tuning) {
  const int in_switch = tuning.gpu_slots.channels_in_switch;
  return builders::RecordOf(algorithm).needs.a_switch && in_switch != 0 ? in_switch : tuning.max_channels;
}

std::vector<Candidate> WaysToMove(tuttiAlgorithm_t algorithm, const Kind& kind, const TuningContext& tuning,
                                  std::size_t bytes, const Unit& unit) {
  const std::size_t block_bytes = BlockBytes(unit.pieces, bytes);
  const std::size_t unit_bytes = (block_bytes + unit.channels - 1) / unit.channels;
  std::vector<Candidate> ways;
  for (const int channels : ChannelCounts(tuning, MostChannels(algorithm, tuning), unit, unit_bytes)) {
    const std::size_t share = (unit_bytes + channels - 1) / channels;
    const auto configs = tuning.threads == 0 ? GpuConfigs(algorithm, kind, tuning, share, unit.refers)
                                             : HostConfigs(kind, tuning, share);
    for (const schedule::ProtocolConfig& config : configs) ways.push_back({algorithm, channels, config});
  }
  return ways;
}

}  // namespace tutti::cost_model
