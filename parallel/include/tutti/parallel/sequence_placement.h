// Which positions of a sequence each rank of a ring holds, and which part of its attention is left to compute where a
// mask empties the rest: arithmetic alone.
//
// Source of the zigzag placement: Llama Team 2024, "The Llama 3 Herd of Models" (context parallelism: 2 n chunks, of
// which rank i has chunks i and 2 n - 1 - i); Megatron-Core's context parallelism has the same. Whoever holds an early
// chunk, which sees little, then holds a late one, which sees much: all ranks compute the same.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "tutti/parallel/attention_mask.h"

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

// What the queries of `query_rank` see of the keys of `key_rank`, two of `ranks` that hold `rows` positions each: one
// block at most, or with a window one for every two chunks of theirs, such that every query's keys come in the order of
// positions. None where the mask leaves nothing.
std::vector<AttentionBlock> visible_blocks(SequencePlacement placement, const AttentionMask& mask, std::size_t rows,
                                           std::size_t query_rank, std::size_t key_rank, std::size_t ranks);

// How many places behind `key_rank` on the ring the last rank is whose queries see something of its keys: they need to
// go no further. 0: no other rank's do.
std::size_t reach_of_keys(SequencePlacement placement, const AttentionMask& mask, std::size_t rows,
                          std::size_t key_rank, std::size_t ranks);

}  // namespace tutti::parallel
