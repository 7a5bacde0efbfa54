#include "tools/simulated.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "algorithms/build.h"
#include "algorithms/candidates.h"
#include "algorithms/fold.h"
#include "base/error.h"
#include "tools/candidate_timer.h"

namespace tutti::tools {
namespace {

constexpr std::size_t KiB = 1024;

// Up to here every rank is simulated; beyond, one node for all that are alike.
constexpr int kRanksInFull = 64;

// What GPUs' slots may hold: depths as on the host (slot.h), so that 24 channels stay within the design's 64 MiB.
constexpr std::array<std::pair<Wire, std::size_t>, 7> kGpuShapes = {{
    {Wire::line, 2 * KiB},
    {Wire::line, 8 * KiB},
    {Wire::inlined, 16 * KiB},
    {Wire::inlined, 64 * KiB},
    {Wire::bulk, 32 * KiB},
    {Wire::bulk, 128 * KiB},
    {Wire::bulk, 512 * KiB},
}};
constexpr std::array<int, 4> kGpuChannels = {1, 4, 12, 24};

// A pipeline of more chunks than this is in its steady state: smaller chunks only cost more steps.
constexpr std::size_t kMostChunks = 256;

std::size_t BytesOfBlock(Collective collective, std::size_t bytes, int ranks) {
  const bool whole =
      collective == Collective::all_reduce || collective == Collective::broadcast || collective == Collective::reduce;
  return whole ? bytes : std::max<std::size_t>(1, bytes / static_cast<std::size_t>(ranks));
}

std::vector<tuttiAlgorithm_t> Algorithms(const Wish& wish, int ranks) {
  if (wish.program != nullptr) return {tuttiAlgorithmProgram};
  if (!wish.algorithms.empty()) return wish.algorithms;
  std::vector<tuttiAlgorithm_t> algorithms;
  for (int a = tuttiAlgorithmNone + 1; a < tuttiNumAlgorithms; ++a) {
    const auto algorithm = static_cast<tuttiAlgorithm_t>(a);
    if (Supports(algorithm, wish.collective, ranks) && !IsBaseline(algorithm)) algorithms.push_back(algorithm);
  }
  return algorithms;
}

struct Way {
  int channels;  // Question::channels
  Shape shape;
};

std::vector<Way> WaysOnHost(const Target& target, const Wish& wish, tuttiAlgorithm_t algorithm, std::size_t block) {
  Conditions conditions = HostConditions(target.machine.nranks());
  conditions.where = target.machine.arrangement();
  std::vector<Way> ways;
  for (const Candidate& candidate : WaysToMove(algorithm, {wish.collective}, conditions, block)) {
    ways.push_back({candidate.channels, candidate.shape});
  }
  return ways;
}

// `units`: channels of the schedule for each that it is asked for.
std::vector<Way> WaysOnGpus(const Wish& wish, int units) {
  std::vector<Way> ways;
  for (const int channels : kGpuChannels) {
    const int asked = std::max(1, (wish.channels > 0 ? wish.channels : channels) / units);
    if (!ways.empty() && ways.back().channels == asked) continue;
    for (const auto& [wire, chunk] : kGpuShapes) ways.push_back({asked, {wire, chunk}});
  }
  return ways;
}

// As wished, where something is.
void Insist(std::vector<Way>& ways, const Wish& wish, int units) {
  constexpr std::size_t kSomeChunk = 64 * KiB;
  if (wish.wire) {
    std::erase_if(ways, [&](const Way& way) { return way.shape.wire != *wish.wire; });
    if (ways.empty()) ways.push_back({1, {*wish.wire, kSomeChunk}});
  }
  for (Way& way : ways) {
    if (wish.chunk_bytes > 0) way.shape.chunk_bytes = wish.chunk_bytes;
    if (wish.channels > 0) way.channels = std::max(1, wish.channels / units);
    if (wish.program != nullptr) way.channels = 1;  // it has the channels that it has
  }
}

}  // namespace

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
  const int ranks = target.machine.nranks();
  const std::size_t block = BytesOfBlock(wish.collective, wish.bytes, ranks);
  std::vector<SimulatedCall> calls;
  for (const tuttiAlgorithm_t algorithm : Algorithms(wish, ranks)) {
    const auto sample = wish.program != nullptr
                            ? std::optional(wish.program->front())
                            : Build(algorithm, {wish.collective, 0, ranks, 0, 1, &target.machine.arrangement()});
    if (!sample) continue;
    const auto units = static_cast<int>(sample->channels.size());
    const std::size_t longest = UniformExtents(wish.collective, ranks, sample->blocks, block).length.front();
    auto ways = target.gpus ? WaysOnGpus(wish, units)
                            : WaysOnHost(target, wish, algorithm, BlockBytes(sample->pieces(), block));
    Insist(ways, wish, units);
    std::set<std::tuple<int, Wire, std::size_t>> seen;
    for (const Way& way : ways) {
      const std::size_t share = std::max<std::size_t>(1, ShareBegin(longest, 1, std::size_t(way.channels) * units));
      if (ways.size() > 1 && share / way.shape.chunk_bytes > kMostChunks) continue;
      // Chunks beyond a whole share are all the same.
      if (!seen.emplace(way.channels, way.shape.wire, std::min(way.shape.chunk_bytes, share)).second) continue;
      calls.push_back({wish.collective, algorithm, block, way.channels, way.shape, 0, 0, wish.program});
    }
  }
  return calls;
}

Outcome Run(const Machine& machine, const SimulatedCall& call, bool full, Timeline* timeline) {
  Outcome outcome{call, {}, std::nullopt};
  if (!full && machine.nranks() > kRanksInFull) {
    outcome.folding = Fold(call.algorithm, call.collective, machine.arrangement());
  }
  outcome.result = Simulate(machine, call, outcome.folding ? &*outcome.folding : nullptr, timeline);
  return outcome;
}

Outcome Fastest(const Target& target, const Wish& wish) {
  std::optional<Outcome> best;
  for (const SimulatedCall& call : Candidates(target, wish)) {
    Outcome outcome = Run(target.machine, call, wish.full);
    if (!best || outcome.result.duration_us < best->result.duration_us) best = std::move(outcome);
  }
  if (!best) {
    Throw(tuttiInvalidArgument, "no algorithm asked for has a form of {} on {} ranks", NameOf(wish.collective),
          target.machine.nranks());
  }
  return *best;
}

}  // namespace tutti::tools
