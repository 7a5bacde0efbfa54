// The positions of a sequence that each rank of a ring holds, and the part of its attention that a mask leaves to
// compute: arithmetic alone.
//
// Source of the zigzag placement: Llama Team 2024, "The Llama 3 Herd of Models" (context parallelism: 2 n chunks; rank
// i has chunks i and 2 n - 1 - i); Megatron-Core's context parallelism has the same. A rank with an early chunk, which
// sees little, then has a late one, too, which sees much: all ranks compute the same.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "tutti/parallel/attention_mask.h"

namespace tutti::parallel {

enum class SequencePlacement {
  contiguous,  // rank i of n has chunk i of n
  zigzag       // rank i of n has chunks i and 2 n - 1 - i of 2 n
};

// Throws Error naming both values unless a sequence of that length can be placed so over `ranks`.
TUTTI_API void require_placeable(SequencePlacement placement, std::size_t sequence, std::size_t ranks);

// The positions of `rank`, in the order in which it holds them: ascending. REQUIRES: the sequence can be placed.
TUTTI_API std::vector<std::size_t> positions_of(SequencePlacement placement, std::size_t sequence, std::size_t rank,
                                                std::size_t ranks);

// The blocks of keys of `key_rank` that queries of `query_rank` see, two of `ranks` that hold `rows` positions each:
// one block at most, or with a window one for each pair of their chunks, such that every query's keys come in the order
// of positions. None where the mask leaves nothing.
TUTTI_API std::vector<AttentionBlock> visible_blocks(SequencePlacement placement, const AttentionMask& mask,
                                                     std::size_t rows, std::size_t query_rank, std::size_t key_rank,
                                                     std::size_t ranks);

// The distance on the ring from `key_rank` to the last rank whose queries see some of its keys: the keys need to go no
// further. 0: no other rank sees any.
TUTTI_API std::size_t reach_of_keys(SequencePlacement placement, const AttentionMask& mask, std::size_t rows,
                                    std::size_t key_rank, std::size_t ranks);

}  // namespace tutti::parallel
