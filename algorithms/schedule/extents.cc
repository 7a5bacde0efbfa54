#include "algorithms/schedule/extents.h"

#include <algorithm>

#include "base/numbers/rounding.h"

namespace tutti::schedule {
namespace {

// Blocks of one buffer begin on cache lines, so that no two ranks write the same line of a shared result.
constexpr std::size_t kBlockUnit = 64;

// Whether the output has all ranks' blocks and the input one rank's; for others it is the other way round.
bool OutputHasAll(Collective collective) { return PatternOf(collective).output.part == Part::all; }

// `bytes` cut into `blocks` parts.
Extents CutBuffer(int blocks, std::size_t bytes) {
  const auto n = static_cast<std::size_t>(blocks);
  std::size_t part = (bytes + n - 1) / n;
  if (n > 1) part = RoundUp(part, kBlockUnit);
  Extents extents;
  for (std::size_t b = 0; b < n; ++b) {
    const std::size_t begin = std::min(b * part, bytes);
    extents.length.push_back(std::min(part, bytes - begin));
    extents.input_offset.push_back(begin);
    extents.output_offset.push_back(begin);
  }
  return extents;
}

}  // namespace

Extents UniformExtents(Collective collective, int nranks, int blocks, std::size_t bytes) {
  if (!HasBlocksOfRanks(collective)) return CutBuffer(blocks, bytes);
  const Extents block = CutBuffer(blocks / nranks, bytes);
  std::vector<std::size_t> lengths;
  std::vector<std::size_t> places;  // offsets on the side that has all ranks' blocks
  std::vector<std::size_t> alone;   // and on the side that has one rank's, whichever it is
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(nranks); ++rank) {
    for (std::size_t part = 0; part < block.length.size(); ++part) {
      lengths.push_back(block.length[part]);
      places.push_back(rank * bytes + block.input_offset[part]);
      alone.push_back(block.input_offset[part]);
    }
  }
  if (HasBlocksOfPairs(collective)) {
    auto extents = PairwiseExtents(lengths, places, lengths, places);
    extents.pairwise = false;
    return extents;
  }
  const bool output_has_all = OutputHasAll(collective);
  return {lengths, output_has_all ? alone : places, output_has_all ? places : alone};
}

Extents UnevenExtents(Collective collective, std::span<const std::size_t> lengths,
                      std::span<const std::size_t> displacements) {
  const std::vector<std::size_t> everywhere(displacements.begin(), displacements.end());
  // The side that holds one block holds it at its start; the other entries are never used.
  const std::vector<std::size_t> alone(lengths.size(), 0);
  const bool output_has_all = OutputHasAll(collective);
  return {std::vector<std::size_t>(lengths.begin(), lengths.end()), output_has_all ? alone : everywhere,
          output_has_all ? everywhere : alone};
}

Extents PairwiseExtents(std::span<const std::size_t> send_lengths, std::span<const std::size_t> send_displacements,
                        std::span<const std::size_t> receive_lengths,
                        std::span<const std::size_t> receive_displacements) {
  Extents extents;
  extents.pairwise = true;
  extents.length.assign(send_lengths.begin(), send_lengths.end());
  extents.length.insert(extents.length.end(), receive_lengths.begin(), receive_lengths.end());
  extents.input_offset.assign(send_displacements.begin(), send_displacements.end());
  extents.output_offset.assign(receive_displacements.begin(), receive_displacements.end());
  return extents;
}

Extents MessageExtents(std::size_t bytes) {
  Extents extents{{bytes}, {0}, {0}};
  extents.pairwise = true;
  return extents;
}

std::size_t ShareBegin(std::size_t length, std::size_t channel, std::size_t channels) {
  if (channel == channels) return length;
  return std::min(length, channel * RoundUp((length + channels - 1) / channels, kBlockUnit));
}

}  // namespace tutti::schedule
