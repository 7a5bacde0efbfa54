#include "tutti/parallel/sequence_placement.h"

#include <numeric>

#include "tutti/parallel/tensor.h"

namespace tutti::parallel {

void require_placeable(SequencePlacement placement, std::size_t sequence, std::size_t ranks) {
  require_divisible("the sequence's length", sequence, "the ring's size", ranks);
  if (placement == SequencePlacement::zigzag && ranks > 1) {
    require_divisible("the sequence's length", sequence, "the number of zigzag chunks, twice the ring's size",
                      2 * ranks);
  }
}

std::vector<std::size_t> positions_of(SequencePlacement placement, std::size_t sequence, std::size_t rank,
                                      std::size_t ranks) {
  std::vector<std::size_t> positions(sequence / ranks);
  if (placement == SequencePlacement::contiguous || ranks == 1) {
    std::iota(positions.begin(), positions.end(), rank * positions.size());
    return positions;
  }
  const std::size_t chunk = positions.size() / 2;
  const auto middle = positions.begin() + static_cast<std::ptrdiff_t>(chunk);
  std::iota(positions.begin(), middle, rank * chunk);
  std::iota(middle, positions.end(), (2 * ranks - 1 - rank) * chunk);
  return positions;
}

std::optional<AttentionBlock> visible_block(SequencePlacement placement, bool causal, std::size_t rows,
                                            std::size_t query_rank, std::size_t key_rank) {
  const AttentionBlock all{.queries = rows, .keys = rows};
  if (!causal) return all;
  // Both hold the same positions, and hold them ascending.
  if (query_rank == key_rank) return AttentionBlock{.queries = rows, .keys = rows, .causal = true};
  const bool earlier = key_rank < query_rank;
  if (placement == SequencePlacement::contiguous) return earlier ? std::optional(all) : std::nullopt;
  // An earlier rank's first chunk is before both of the queries' chunks, and its second one behind both. A later rank's
  // chunks are both between the queries' two.
  const std::size_t half = rows / 2;
  if (earlier) return AttentionBlock{.queries = rows, .keys = half};
  return AttentionBlock{.first_query = half, .queries = half, .keys = rows};
}

}  // namespace tutti::parallel
