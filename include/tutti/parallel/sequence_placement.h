// Which positions of a sequence each rank of a ring holds, and which part of its attention is left to compute where a
// causal mask empties the rest: arithmetic alone.
//
// Source of the zigzag placement: Llama Team 2024, "The Llama 3 Herd of Models" (context parallelism: 2 n chunks, of
// which rank i has chunks i and 2 n - 1 - i); Megatron-Core's context parallelism has the same. Whoever holds an early
// chunk, which sees little, then holds a late one, which sees much: all ranks compute the same.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace tutti::parallel {

enum class SequencePlacement {
  contiguous,  // rank i of n has chunk i of n
  zigzag       // ... chunks i and 2 n - 1 - i of 2 n
};

// Throws Error naming both values unless a sequence of that length can be placed so over `ranks`.
void require_placeable(SequencePlacement placement, std::size_t sequence, std::size_t ranks);

// What `rank` holds, in the order in which it holds it: ascending. REQUIRES: the sequence can be placed.
std::vector<std::size_t> positions_of(SequencePlacement placement, std::size_t sequence, std::size_t rank,
                                      std::size_t ranks);

// Queries [first_query, first_query + queries) of what a rank holds, keys and values likewise of what one holds.
struct AttentionBlock {
  std::size_t first_query = 0, queries = 0;
  std::size_t first_key = 0, keys = 0;
  bool causal = false;  // query i of the block sees its keys 0 .. i only

  bool operator==(const AttentionBlock&) const = default;
};

// What the queries of `query_rank` see of the keys of `key_rank`, who hold `rows` positions each: always one block, and
// none where the mask leaves nothing.
std::optional<AttentionBlock> visible_block(SequencePlacement placement, bool causal, std::size_t rows,
                                            std::size_t query_rank, std::size_t key_rank);

}  // namespace tutti::parallel
