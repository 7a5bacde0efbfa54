#include "tools/simulated.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "algorithms/build.h"
#include "algorithms/fold.h"
#include "base/error.h"
#include "transports/layout.h"

namespace tutti::tools {
namespace {

constexpr std::size_t KiB = 1024;

// Up to here every rank is simulated; beyond, one node for all that are alike.
constexpr int kRanksInFull = 256;

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
  if (!wish.algorithms.empty()) return wish.algorithms;
  std::vector<tuttiAlgorithm_t> algorithms;
  for (int a = tuttiAlgorithmNone + 1; a < tuttiNumAlgorithms; ++a) {
    const auto algorithm = static_cast<tuttiAlgorithm_t>(a);
    if (Supports(algorithm, wish.collective, ranks)) algorithms.push_back(algorithm);
  }
  return algorithms;
}

std::vector<Shape> Shapes(const Target& target, const Wish& wish, std::size_t block, int blocks) {
  std::vector<Shape> shapes;
  if (!target.gpus) {
    // The host's own choice.
    SelectInput input;
    input.collective = wish.collective;
    input.nranks = target.machine.nranks();
    input.bytes = block;
    input.forced_chunk_bytes = wish.chunk_bytes;
    input.bulk_capacity = kMaxBulkCapacity;
    shapes.push_back(ChooseShape(input, blocks));
  } else {
    for (const auto& [wire, chunk] : kGpuShapes) shapes.push_back({wire, chunk});
  }
  if (wish.wire) {
    std::erase_if(shapes, [&](const Shape& shape) { return shape.wire != *wish.wire; });
    if (shapes.empty()) shapes.push_back({*wish.wire, 64 * KiB});
  }
  if (wish.chunk_bytes > 0) {
    for (Shape& shape : shapes) shape.chunk_bytes = wish.chunk_bytes;
  }
  return shapes;
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
    const auto sample = Build(algorithm, {wish.collective, 0, ranks, 0, 1, &target.machine.arrangement()});
    if (!sample) continue;
    std::vector<int> channels(kGpuChannels.begin(), kGpuChannels.end());
    if (!target.gpus) channels = {1};
    if (wish.channels > 0) channels = {wish.channels};
    const int trees = static_cast<int>(sample->channels.size());
    std::vector<int> repeats;  // `channels` counts them all, a tree's question counts pairs
    for (const int count : channels) repeats.push_back(std::max(1, count / trees));
    repeats.erase(std::unique(repeats.begin(), repeats.end()), repeats.end());
    const std::size_t longest = UniformExtents(wish.collective, ranks, sample->blocks, block).length.front();
    for (const int repeat : repeats) {
      const std::size_t share = ShareBegin(longest, 1, static_cast<std::size_t>(repeat) * sample->channels.size());
      std::vector<std::pair<Wire, std::size_t>> seen;
      const auto shapes = Shapes(target, wish, block, sample->blocks);
      for (const Shape& shape : shapes) {
        if (shapes.size() > 1 && share / shape.chunk_bytes > kMostChunks) continue;
        // Chunks beyond a whole share are all the same.
        const auto key = std::pair(shape.wire, std::min(shape.chunk_bytes, std::max<std::size_t>(share, 1)));
        if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
        seen.push_back(key);
        calls.push_back({wish.collective, algorithm, block, repeat, shape});
      }
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
