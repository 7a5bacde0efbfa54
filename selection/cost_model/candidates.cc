#include "selection/cost_model/candidates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/made_once.h"
#include "base/plain_text.h"
#include "base/rounding.h"

namespace tutti {
namespace {

constexpr std::size_t KiB = 1024;

// Tried for the bulk wire. Below, a step's cost shows; above, a slot no longer fits a core's cache. On two cores times
// are flat within the noise between 16 and 512 KiB for all ranks' chunks together.
constexpr std::array kChunks = {8 * KiB, 32 * KiB, 128 * KiB, 512 * KiB};
// Shapes tried on GPUs. At the host's depths (slot.h), all channels of the longest bulk slots take 48 MiB a peer.
constexpr std::array<Shape, 7> kGpuShapes = {{
    {Wire::line, 2 * KiB},
    {Wire::line, 8 * KiB},
    {Wire::inlined, 16 * KiB},
    {Wire::inlined, 64 * KiB},
    {Wire::bulk, 32 * KiB},
    {Wire::bulk, 128 * KiB},
    {Wire::bulk, 512 * KiB},
}};
constexpr std::array kGpuChannels = {1, 4, 12, kMostGpuChannels, 48, kMostChannelsOfOneGpu};
// A pipeline of more chunks than this is in its steady state: smaller chunks only cost more steps.
constexpr std::size_t kMostChunks = 256;
// The most pieces in which a short-message wire carries a longer message; beyond that, bulk is better everywhere.
constexpr std::size_t kMaxShortChunks = 8;

std::string NamesOf(Collective collective, int nranks) {
  std::vector<std::string_view> names;
  for (int i = tuttiAlgorithmNone + 1; i < tuttiNumAlgorithms; ++i) {
    const auto algorithm = static_cast<tuttiAlgorithm_t>(i);
    if (Supports(algorithm, collective, nranks)) names.push_back(NameOf(algorithm));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

tuttiAlgorithm_t ParseAlgorithm(std::string_view word) {
  if (const auto algorithm = AlgorithmFromName(word)) return *algorithm;
  std::vector<std::string_view> names;
  for (int i = tuttiAlgorithmNone + 1; i < tuttiNumAlgorithms; ++i)
    names.push_back(NameOf(static_cast<tuttiAlgorithm_t>(i)));
  Throw(tuttiInvalidArgument, "algorithm {} is unknown; there are {}", Quoted(word), fmt::join(names, ", "));
}

bool IsTwoLevel(tuttiAlgorithm_t algorithm) {
  return algorithm == tuttiAlgorithmTwoLevel || algorithm == tuttiAlgorithmTwoLevelTree;
}

// The verifier proves that these compute one fixed expression, rounded once (verify.h, IsDeterministic).
bool RoundsOnce(tuttiAlgorithm_t algorithm) {
  return algorithm == tuttiAlgorithmDirect || algorithm == tuttiAlgorithmTwoShot;
}

// Channel counts to try for an algorithm that takes `unit` of the fabric's for each; one unit carries `block_bytes`.
std::vector<int> ChannelCounts(const TuningContext& tuning, int unit, int lanes, std::size_t block_bytes) {
  int most = std::max(1, tuning.max_channels / unit);
  // A count that the user forces is not fitted to the GPU: a launch refuses it with the numbers.
  if (tuning.forced.channels != 0) return {std::clamp(tuning.forced.channels / unit, 1, most)};
  if (tuning.most_lanes != 0) most = std::clamp(tuning.most_lanes / lanes, 1, most);
  if (tuning.threads == 0) {
    std::vector<int> counts;
    for (const int count : kGpuChannels) {
      const int asked = std::clamp(count / unit, 1, most);
      if (counts.empty() || counts.back() != asked) counts.push_back(asked);
    }
    return counts;
  }
  // One channel per thread, once each channel gets at least a line.
  const int threads = std::clamp(tuning.threads / unit, 1, most);
  if (threads == 1 || block_bytes / static_cast<std::size_t>(threads) < kCacheLine) return {1};
  return {1, threads};
}

// Shapes in which GPUs could move a channel's share of every block.
std::vector<Shape> GpuShapes(const Kind& kind, const TuningContext& tuning, std::size_t share, bool refers) {
  const Forced& forced = tuning.forced;
  std::vector<Shape> shapes;
  for (Shape shape : kGpuShapes) {
    if (forced.wire ? *forced.wire != shape.wire : kind.pairwise && shape.wire != Wire::bulk) continue;
    if (shape.wire == Wire::inlined && !tuning.gpu_slots.inlined) continue;
    if (shape.wire == Wire::line && !tuning.gpu_slots.lines) continue;
    const bool longest = shape == kGpuShapes.back();
    if (forced.chunk_bytes != 0) shape.chunk_bytes = std::max(kCacheLine, RoundDown(forced.chunk_bytes, kCacheLine));
    shape.chunk_bytes = std::min(shape.chunk_bytes, ChunkCapacity(shape.wire, tuning, refers));
    // Chunks beyond a whole share are all the same.
    const bool same = !shapes.empty() && shapes.back().wire == shape.wire &&
                      (shapes.back().chunk_bytes >= share || shapes.back().chunk_bytes == shape.chunk_bytes);
    if (same || (share / shape.chunk_bytes > kMostChunks && forced.chunk_bytes == 0 && !longest)) continue;
    shapes.push_back(shape);
  }
  return shapes;
}

// Likewise for a host's ranks.
std::vector<Shape> HostShapes(const Kind& kind, const TuningContext& tuning, std::size_t share) {
  const Forced& forced = tuning.forced;
  const std::size_t most = RoundDown(tuning.bulk_capacity, kCacheLine);
  std::vector<Shape> shapes;
  const auto short_wire = [&](Wire wire, const SlotShape& shape) {
    if (kind.pairwise || (forced.wire ? *forced.wire != wire : forced.chunk_bytes != 0 && share > shape.capacity))
      return;
    const bool whole = share <= shape.capacity;
    const std::size_t chunk = whole ? shape.capacity : RoundDown(shape.capacity, kCacheLine);
    // A line holds no multiple of a line besides its flag, so it takes whole blocks only.
    if (chunk == 0 || (!forced.wire && share > chunk * kMaxShortChunks)) return;
    shapes.push_back({wire, chunk});
  };
  short_wire(Wire::line, kLineShape);
  short_wire(Wire::inlined, kInlineShape);
  if (forced.wire && *forced.wire != Wire::bulk && !shapes.empty()) return shapes;
  if (forced.chunk_bytes != 0) {
    shapes.push_back({Wire::bulk, std::clamp(RoundDown(forced.chunk_bytes, kCacheLine), kCacheLine, most)});
    return shapes;
  }
  for (const std::size_t chunk : kChunks) {
    shapes.push_back({Wire::bulk, std::min(chunk, most)});
    if (chunk >= share || chunk >= most) break;  // larger ones would be the same
  }
  return shapes;
}

}  // namespace

const std::vector<Kind>& AllKinds() {
  static constinit MadeOnce<const std::vector<Kind>> kinds;
  return kinds.Get([] {
    auto all = std::make_unique<std::vector<Kind>>();
    for (int c = 0; c < kScheduledCollectives; ++c) {
      const auto collective = static_cast<Collective>(c);
      all->push_back({collective});
      if (IsReducing(collective)) all->push_back({collective, true});
      if (collective == Collective::all_to_all) all->push_back({collective, false, true});
    }
    return all;
  });
}

int IndexOf(const Kind& kind) {
  const auto& kinds = AllKinds();
  return static_cast<int>(std::find(kinds.begin(), kinds.end(), kind) - kinds.begin());
}

std::string ToString(const Kind& kind) {
  return fmt::format("{}{}{}", NameOf(kind.collective), kind.low_precision ? ", low precision" : "",
                     kind.pairwise ? ", pairwise" : "");
}

Collective ParseCollective(std::string_view word) {
  std::vector<std::string_view> names;
  for (int c = 0; c < kScheduledCollectives; ++c) {
    names.push_back(NameOf(static_cast<Collective>(c)));
    if (names.back() == word) return static_cast<Collective>(c);
  }
  Throw(tuttiInvalidArgument, "collective {} is unknown; there are {}", Quoted(word), fmt::join(names, ", "));
}

void ParseForcedAlgorithms(const std::string& text, int nranks, Forced& forced) {
  std::array<std::optional<tuttiAlgorithm_t>, kScheduledCollectives> pairs;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word(text.data() + begin, end - begin);
    begin = end + 1;
    const auto colon = word.find(':');
    const auto algorithm = ParseAlgorithm(colon == word.npos ? word : word.substr(colon + 1));
    if (colon != word.npos) {
      const int c = static_cast<int>(ParseCollective(word.substr(0, colon)));
      if (!Supports(algorithm, static_cast<Collective>(c), nranks)) {
        Throw(tuttiInvalidArgument, "TUTTI_ALGO={}: {} has no form of {} on {} ranks; there are {}", Quoted(text),
              NameOf(algorithm), NameOf(static_cast<Collective>(c)), nranks,
              NamesOf(static_cast<Collective>(c), nranks));
      }
      pairs[c] = algorithm;
      continue;
    }
    for (int c = 0; c < kScheduledCollectives; ++c) {
      forced.algorithm[c] = algorithm;
    }
  }
  for (int c = 0; c < kScheduledCollectives; ++c) {
    if (pairs[c]) forced.algorithm[c] = pairs[c];
    forced.by_name[c] = pairs[c].has_value();
  }
}

std::string WhyImpossible(tuttiAlgorithm_t algorithm, const Kind& kind, const TuningContext& tuning) {
  if (algorithm == tuttiAlgorithmProgram) {
    const auto* program = tuning.programs[static_cast<std::size_t>(kind.collective)];
    if (program == nullptr) return "has no form of it: TUTTI_PROGRAM gives none";
    return kind.pairwise ? "has no form of it for lengths that only pairs know" : "";
  }
  if (!Supports(algorithm, kind.collective, tuning.nranks)) return "has no form of it on so many ranks";
  if (kind.pairwise && PassesBlocksOn(algorithm, kind.collective))
    return "passes on blocks whose lengths only others know";
  if (!tuning.one_host && NeedsPosts(algorithm)) return "posts to ranks that are on other hosts";
  if (IsReducing(kind.collective) && tuning.deterministic && !RoundsOnce(algorithm)) {
    return "is not deterministic: other orders, more roundings";
  }
  return "";
}

std::string WhyNot(tuttiAlgorithm_t algorithm, const Kind& kind, const TuningContext& tuning) {
  if (auto why = WhyImpossible(algorithm, kind, tuning); !why.empty()) return why;
  const auto forced = tuning.forced.algorithm[static_cast<std::size_t>(kind.collective)];
  if (forced && WhyImpossible(*forced, kind, tuning).empty()) {
    return *forced == algorithm ? "" : fmt::format("{} is forced", NameOf(*forced));
  }
  if (IsBaseline(algorithm)) return "is there to be compared with: on request only";
  if (IsTwoLevel(algorithm) && tuning.where.nodes() <= 1) return "is for several nodes; here is one";
  if (IsReducing(kind.collective) && kind.low_precision && !RoundsOnce(algorithm) &&
      WhyImpossible(tuttiAlgorithmDirect, kind, tuning).empty()) {
    return "rounds partial sums of a low-precision type on the way";
  }
  // Pricing them would take longer than it could ever save.
  constexpr int kMaxFullExchange = 64;
  if (algorithm == tuttiAlgorithmRecursive && tuning.nranks > kMaxFullExchange &&
      (tuning.nranks & (tuning.nranks - 1)) != 0) {
    return "is considered beyond 64 ranks for powers of two only";
  }
  if (algorithm == tuttiAlgorithmBruck && kind.collective == Collective::all_to_all &&
      tuning.nranks > kMaxFullExchange) {
    return "is considered up to 64 ranks only: it moves n/2 log n blocks, a slot each";
  }
  return "";
}

std::size_t SlotCapacity(Wire wire, const TuningContext& tuning) {
  if (tuning.threads == 0) {
    const std::size_t known = wire == Wire::line ? tuning.gpu_slots.line : tuning.gpu_slots.bulk;
    return known != 0 ? known : std::numeric_limits<std::size_t>::max();
  }
  switch (wire) {
    case Wire::line: return kLineShape.capacity;
    case Wire::inlined: return kInlineShape.capacity;
    case Wire::bulk: break;
  }
  return tuning.bulk_capacity;
}

std::size_t ChunkCapacity(Wire wire, const TuningContext& tuning, bool may_refer) {
  const bool any = wire == Wire::bulk && may_refer && tuning.gpu_slots.refer;
  return any ? kLongestChunk : SlotCapacity(wire, tuning);
}

std::size_t BlockBytes(int pieces, std::size_t bytes) {
  if (pieces <= 1) return bytes;
  return RoundUp((bytes + pieces - 1) / static_cast<std::size_t>(pieces), kCacheLine);
}

Shape Fitting(Shape shape, std::size_t block_bytes, int channels) {
  // A channel's share begins on a line.
  const std::size_t share = channels == 1 ? block_bytes : RoundUp((block_bytes + channels - 1) / channels, kCacheLine);
  if (share <= shape.chunk_bytes || shape.chunk_bytes % kCacheLine == 0) return shape;
  if (shape.wire == Wire::line) return Fitting({Wire::inlined, kInlineShape.capacity}, block_bytes, channels);
  return {shape.wire, RoundDown(shape.chunk_bytes, kCacheLine)};
}

std::vector<Candidate> WaysToMove(tuttiAlgorithm_t algorithm, const Kind& kind, const TuningContext& tuning,
                                  std::size_t block_bytes, const UnitOnGpu& on_gpu) {
  const int unit = FabricChannels(algorithm, tuning.one_host);
  const std::size_t unit_bytes = (block_bytes + unit - 1) / unit;
  std::vector<Candidate> ways;
  for (const int channels : ChannelCounts(tuning, unit, on_gpu.lanes, unit_bytes)) {
    const std::size_t share = (unit_bytes + channels - 1) / channels;
    const auto shapes =
        tuning.threads == 0 ? GpuShapes(kind, tuning, share, on_gpu.refers) : HostShapes(kind, tuning, share);
    for (const Shape& shape : shapes) ways.push_back({algorithm, channels, shape});
  }
  return ways;
}

}  // namespace tutti
