#include "tutti/parallel/sequence_placement.h"

#include <optional>

#include "tutti/parallel/tensor.h"

namespace tutti::parallel {
namespace {

// Consecutive positions that a rank holds in consecutive rows.
struct Chunk {
  std::size_t first_row, first_position, rows;
};

std::vector<Chunk> ChunksOf(SequencePlacement placement, std::size_t rows, std::size_t rank, std::size_t ranks) {
  if (placement == SequencePlacement::contiguous || ranks == 1) return {{0, rank * rows, rows}};
  const std::size_t half = rows / 2;
  return {{0, rank * half, half}, {half, (2 * ranks - 1 - rank) * half, half}};
}

// The block that a causal window leaves of two equally long chunks, without the rows at its ends that see, or are seen
// by, nothing on the other side.
std::optional<AttentionBlock> BlockOf(const AttentionMask& mask, const Chunk& queries, const Chunk& keys) {
  if (queries.first_position < keys.first_position) return std::nullopt;
  AttentionBlock block{queries.first_row, queries.rows, keys.first_row,
                       keys.rows,         mask,         queries.first_position - keys.first_position};
  const std::size_t hidden = visible_keys(mask, block.lead, 0, block.keys).begin;
  if (hidden == block.keys) return std::nullopt;  // from the first query, and so from all later ones
  block.first_key += hidden;
  block.keys -= hidden;
  block.lead -= hidden;
  block.queries = visible_queries(mask, block.lead, block.keys - 1, block.queries).end;
  // Drops masks that hide nothing, so that none is computed with in vain.
  if (block.lead + block.queries <= mask.window) block.mask.window = 0;
  if (block.mask.window == 0 && block.keys <= block.lead + 1) block.mask = {}, block.lead = 0;
  return block;
}

}  // namespace

void require_placeable(SequencePlacement placement, std::size_t sequence, std::size_t ranks) {
  require_divisible("the sequence's length", sequence, "the ring's size", ranks);
  if (placement == SequencePlacement::zigzag && ranks > 1) {
    require_divisible("the sequence's length", sequence, "the number of zigzag chunks, twice the ring's size",
                      2 * ranks);
  }
}

std::vector<std::size_t> positions_of(SequencePlacement placement, std::size_t sequence, std::size_t rank,
                                      std::size_t ranks) {
  std::vector<std::size_t> positions;
  for (const auto& chunk : ChunksOf(placement, sequence / ranks, rank, ranks)) {
    for (std::size_t row = 0; row < chunk.rows; ++row) positions.push_back(chunk.first_position + row);
  }
  return positions;
}

std::vector<AttentionBlock> visible_blocks(SequencePlacement placement, const AttentionMask& mask, std::size_t rows,
                                           std::size_t query_rank, std::size_t key_rank, std::size_t ranks) {
  std::vector<AttentionBlock> blocks;
  if (mask.window > 0) {
    for (const auto& queries : ChunksOf(placement, rows, query_rank, ranks)) {
      for (const auto& keys : ChunksOf(placement, rows, key_rank, ranks)) {
        if (const auto block = BlockOf(mask, queries, keys)) blocks.push_back(*block);
      }
    }
    return blocks;
  }
  const AttentionBlock all{.queries = rows, .keys = rows};
  if (!mask.causal) return {all};
  // Both hold the same positions, in ascending order.
  if (query_rank == key_rank) return {{.queries = rows, .keys = rows, .mask = mask}};
  const bool earlier = key_rank < query_rank;
  if (placement == SequencePlacement::contiguous) return earlier ? std::vector{all} : blocks;
  // An earlier rank's first chunk is before both of the queries' chunks, and its second one behind both. A later rank's
  // chunks are both between the queries' two.
  const std::size_t half = rows / 2;
  if (earlier) return {{.queries = rows, .keys = half}};
  return {{.first_query = half, .queries = half, .keys = rows}};
}

std::size_t reach_of_keys(SequencePlacement placement, const AttentionMask& mask, std::size_t rows,
                          std::size_t key_rank, std::size_t ranks) {
  std::size_t reach = ranks - 1;
  while (reach > 0 && visible_blocks(placement, mask, rows, (key_rank + reach) % ranks, key_rank, ranks).empty()) {
    --reach;
  }
  return reach;
}

}  // namespace tutti::parallel
