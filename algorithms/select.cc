#include "algorithms/select.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "algorithms/build.h"

namespace tutti {
namespace {

constexpr std::size_t KiB = 1024;

// One-shot does nranks times the arithmetic of two-shot, but takes one trip instead of two. Measured crossover of the
// buffer size on a 2-core host.
constexpr std::size_t kOneShotBytes = 32 * KiB;

// Between these sizes grouped beats one-shot where there are more than a dozen ranks. Measured on a 2-core host, 12 to
// 64 ranks: below, the second trip costs as much as the reading.
constexpr int kFewRanks = 12;
constexpr std::size_t kMinGroupedBytes = 2 * KiB;
constexpr std::size_t kMaxGroupedBytes = kOneShotBytes;

// A rank's chunks for all others together, so that what travels stays in a core's L2 beside what is read and written;
// and the bounds of one: below, a step's cost (0.1 us, or a yield where ranks share cores) shows. Measured between 64
// and 512 KiB on 2, 4 and 8 ranks: flat within the noise.
constexpr std::size_t kChunksTogether = 256 * KiB;
constexpr std::size_t kMinChunkBytes = 8 * KiB;
constexpr std::size_t kMaxChunkBytes = 128 * KiB;

std::size_t ChunkBytes(int nranks) {
  return std::clamp(kChunksTogether / static_cast<std::size_t>(nranks), kMinChunkBytes, kMaxChunkBytes);
}

// In order of preference where the preferred one has no form of the collective.
constexpr std::array kFallbacks = {tuttiAlgorithmDirect, tuttiAlgorithmRing, tuttiAlgorithmBinomial,
                                   tuttiAlgorithmRecursive};

constexpr std::size_t RoundUp(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

bool Fits(tuttiAlgorithm_t algorithm, const SelectInput& input) {
  if (input.pairwise && PassesBlocksOn(algorithm, input.collective)) return false;
  return Supports(algorithm, input.collective, input.nranks);
}

// The verifier proves that these compute one fixed expression (verify.h, IsDeterministic).
bool Proves(tuttiAlgorithm_t algorithm, const SelectInput& input) {
  return !input.deterministic || !IsReducing(input.collective) || algorithm == tuttiAlgorithmDirect ||
         algorithm == tuttiAlgorithmTwoShot;
}

// Many ranks and a middling message: reading everybody's costs more than a second trip. Low-precision sums stay with
// what rounds once.
bool WantsGroups(const SelectInput& input) {
  return input.collective == Collective::all_reduce && input.nranks > kFewRanks && !input.low_precision &&
         !input.deterministic && input.bytes >= kMinGroupedBytes && input.bytes <= kMaxGroupedBytes &&
         Fits(tuttiAlgorithmGrouped, input);
}

std::pair<tuttiAlgorithm_t, const char*> Prefer(const SelectInput& input) {
  if (WantsGroups(input)) {
    return {tuttiAlgorithmGrouped, "many ranks: reading every one counts more than a second trip"};
  }
  const bool has_two_shot = Fits(tuttiAlgorithmTwoShot, input);
  if (has_two_shot && input.bytes > kOneShotBytes) {
    return {tuttiAlgorithmTwoShot, "every rank reduces its share: arithmetic counts at this size"};
  }
  for (const auto algorithm : kFallbacks) {
    if (!Fits(algorithm, input) || !Proves(algorithm, input)) continue;
    return {algorithm, algorithm != tuttiAlgorithmDirect ? "more ranks than one reduction reads at once"
                       : has_two_shot                    ? "one trip: latency counts at this size"
                                                         : "every block goes straight to where it belongs"};
  }
  return {tuttiAlgorithmDirect, "nothing else has a form of this collective"};
}

}  // namespace

Choice ChooseAlgorithm(const SelectInput& input) {
  Choice choice;
  std::tie(choice.algorithm, choice.reason) = Prefer(input);
  if (input.forced_algorithm) {
    if (!Fits(*input.forced_algorithm, input)) {
      choice.reason = "the forced algorithm has no form of this collective";
    } else if (!Proves(*input.forced_algorithm, input)) {
      choice.reason = "the forced algorithm is not deterministic";
    } else {
      choice.algorithm = *input.forced_algorithm;
      choice.reason = "forced";
    }
  }
  // A channel a thread, once there is a chunk for each.
  const auto free = static_cast<int>(std::min<std::size_t>(input.threads, input.bytes / ChunkBytes(input.nranks) + 1));
  choice.channels = std::min(input.forced_channels != 0 ? input.forced_channels : free, input.max_channels);
  choice.channels = std::max(1, choice.channels / FabricChannels(choice.algorithm));
  return choice;
}

Shape ChooseShape(const SelectInput& input, int blocks) {
  // What one slot would carry if blocks travelled whole.
  const bool cuts = input.collective == Collective::all_reduce || input.collective == Collective::reduce ||
                    input.collective == Collective::broadcast;
  const auto n = static_cast<std::size_t>(cuts ? blocks : 1);
  const std::size_t block = n == 1 ? input.bytes : RoundUp((input.bytes + n - 1) / n, kCacheLine);
  if (!input.pairwise && block <= kLineShape.capacity) return {Wire::line, kLineShape.capacity};
  if (!input.pairwise && block <= kInlineShape.capacity) return {Wire::inlined, kInlineShape.capacity};
  const std::size_t wanted = input.forced_chunk_bytes != 0 ? input.forced_chunk_bytes : ChunkBytes(input.nranks);
  const std::size_t most = input.bulk_capacity / kCacheLine * kCacheLine;
  return {Wire::bulk, std::clamp(wanted / kCacheLine * kCacheLine, kCacheLine, most)};
}

}  // namespace tutti
