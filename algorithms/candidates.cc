#include "algorithms/candidates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"

namespace tutti {
namespace {

constexpr std::size_t KiB = 1024;

// Tried for the bulk wire. Below, a step's cost shows; above, a slot no longer fits a core's cache. On two cores times
// are flat within the noise between 16 and 512 KiB for all ranks' chunks together.
constexpr std::array kChunks = {8 * KiB, 32 * KiB, 128 * KiB, 512 * KiB};
// A wire for short messages may carry a longer one in so many pieces; more, and bulk is better everywhere.
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
  Throw(tuttiInvalidArgument, "algorithm \"{}\" is unknown; there are {}", word, fmt::join(names, ", "));
}

// The verifier proves that these compute one fixed expression, rounded once (verify.h, IsDeterministic).
bool RoundsOnce(tuttiAlgorithm_t algorithm) {
  return algorithm == tuttiAlgorithmDirect || algorithm == tuttiAlgorithmTwoShot;
}

std::vector<int> ChannelCounts(const Conditions& conditions, std::size_t block_bytes) {
  if (conditions.forced.channels != 0) return {std::min(conditions.forced.channels, conditions.max_channels)};
  std::vector<int> counts = {1};
  const int most =
      conditions.threads == 0 ? conditions.max_channels : std::min(conditions.threads, conditions.max_channels);
  // A channel a thread, once there is a chunk for each.
  for (int count = 2; count <= most && block_bytes / count >= kCacheLine; ++count) {
    const bool tried = conditions.threads != 0 ? count == most : (count & (count - 1)) == 0 || count == most;
    if (tried) counts.push_back(count);
  }
  return counts;
}

}  // namespace

const std::vector<Kind>& AllKinds() {
  static const std::vector<Kind> kinds = [] {
    std::vector<Kind> all;
    for (int c = 0; c < kScheduledCollectives; ++c) {
      const auto collective = static_cast<Collective>(c);
      all.push_back({collective});
      if (IsReducing(collective)) all.push_back({collective, true});
      if (collective == Collective::all_to_all) all.push_back({collective, false, true});
    }
    return all;
  }();
  return kinds;
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
  Throw(tuttiInvalidArgument, "collective \"{}\" is unknown; there are {}", word, fmt::join(names, ", "));
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
        Throw(tuttiInvalidArgument, "TUTTI_ALGO=\"{}\": {} has no form of {} on {} ranks; there are {}", text,
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

std::string WhyImpossible(tuttiAlgorithm_t algorithm, const Kind& kind, const Conditions& conditions) {
  if (algorithm == tuttiAlgorithmProgram) {
    const auto* program = conditions.programs[static_cast<std::size_t>(kind.collective)];
    if (program == nullptr) return "has no form of it: TUTTI_PROGRAM gives none";
    return kind.pairwise ? "has no form of it for lengths that only pairs know" : "";
  }
  if (!Supports(algorithm, kind.collective, conditions.nranks)) return "has no form of it on so many ranks";
  if (kind.pairwise && PassesBlocksOn(algorithm, kind.collective))
    return "passes on blocks whose lengths only others know";
  if (!conditions.one_host && NeedsOneHost(algorithm, kind.collective)) return "posts to ranks that are on other hosts";
  if (IsReducing(kind.collective) && conditions.deterministic && !RoundsOnce(algorithm)) {
    return "is not deterministic: other orders, more roundings";
  }
  return "";
}

std::string WhyNot(tuttiAlgorithm_t algorithm, const Kind& kind, const Conditions& conditions) {
  if (auto why = WhyImpossible(algorithm, kind, conditions); !why.empty()) return why;
  const auto forced = conditions.forced.algorithm[static_cast<std::size_t>(kind.collective)];
  if (forced && WhyImpossible(*forced, kind, conditions).empty()) {
    return *forced == algorithm ? "" : fmt::format("{} is forced", NameOf(*forced));
  }
  if (IsBaseline(algorithm)) return "is there to be compared with: on request only";
  if (IsReducing(kind.collective) && kind.low_precision && !RoundsOnce(algorithm) &&
      WhyImpossible(tuttiAlgorithmDirect, kind, conditions).empty()) {
    return "rounds partial sums of a low-precision type on the way";
  }
  // Its table would take longer to price than it could ever save.
  constexpr int kMaxFullExchange = 64;
  if (algorithm == tuttiAlgorithmRecursive && conditions.nranks > kMaxFullExchange &&
      (conditions.nranks & (conditions.nranks - 1)) != 0) {
    return "is considered beyond 64 ranks for powers of two only";
  }
  return "";
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

std::vector<Candidate> WaysToMove(tuttiAlgorithm_t algorithm, const Kind& kind, const Conditions& conditions,
                                  std::size_t block_bytes) {
  const Forced& forced = conditions.forced;
  const std::size_t most = RoundDown(conditions.bulk_capacity, kCacheLine);
  std::vector<Candidate> ways;
  for (const int channels : ChannelCounts(conditions, block_bytes)) {
    const std::size_t share = (block_bytes + channels - 1) / channels;
    const auto short_wire = [&](Wire wire, const SlotShape& shape) {
      if (kind.pairwise || (forced.wire ? *forced.wire != wire : forced.chunk_bytes != 0 && share > shape.capacity))
        return;
      const bool whole = share <= shape.capacity;
      const std::size_t chunk = whole ? shape.capacity : RoundDown(shape.capacity, kCacheLine);
      // A line holds no multiple of a line beside its flag, so it takes whole blocks only.
      if (chunk == 0 || (!forced.wire && share > chunk * kMaxShortChunks)) return;
      ways.push_back({algorithm, channels, {wire, chunk}});
    };
    short_wire(Wire::line, kLineShape);
    short_wire(Wire::inlined, kInlineShape);
    if (forced.wire && *forced.wire != Wire::bulk && !ways.empty()) continue;
    if (forced.chunk_bytes != 0) {
      ways.push_back(
          {algorithm, channels, {Wire::bulk, std::clamp(RoundDown(forced.chunk_bytes, kCacheLine), kCacheLine, most)}});
      continue;
    }
    for (const std::size_t chunk : kChunks) {
      ways.push_back({algorithm, channels, {Wire::bulk, std::min(chunk, most)}});
      if (chunk >= share || chunk >= most) break;  // larger ones would be the same
    }
  }
  return ways;
}

}  // namespace tutti
