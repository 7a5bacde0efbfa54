// The positions of a sequence that each rank of a ring holds, and the part of its attention that a mask leaves to
// compute: arithmetic alone.
//
// A sequence is one sample, or several that lie one behind the other and do not see each other. It is given by the
// samples' borders, which are FlashAttention's cu_seqlens: 0, the end of the first sample, ..., the sequence's length.
//
// Source of the zigzag placement: Llama Team 2024, "The Llama 3 Herd of Models" (context parallelism: 2 n chunks; rank
// i has chunks i and 2 n - 1 - i); Megatron-Core's context parallelism has the same, of each sample, too. A rank with
// an early chunk, which sees little, then has a late one, too, which sees much: all ranks compute the same.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "tutti/parallel/attention_mask.h"

namespace tutti::parallel {

enum class SequencePlacement {
  contiguous,  // rank i of n has part i of n of the whole sequence
  zigzag       // rank i of n has parts i and 2 n - 1 - i of 2 n of each sample; whose parts are longer takes turns
};

// Consecutive positions of one sample, which a rank holds in consecutive rows.
struct TUTTI_API SequenceChunk {
  std::size_t first_row = 0, first_position = 0, rows = 0, sample = 0;

  bool operator==(const SequenceChunk&) const = default;
};

// The chunks of `rank`, in the order in which it holds them: ascending. None is empty. REQUIRES: borders begin with 0,
// and ascend.
TUTTI_API std::vector<SequenceChunk> chunks_of(SequencePlacement placement, const std::vector<std::size_t>& cu_seqlens,
                                               std::size_t rank, std::size_t ranks);
TUTTI_API std::vector<std::size_t> positions_of(const std::vector<SequenceChunk>& chunks);

// The blocks of one rank's keys that queries of another one, or the same, see: of each sample one at most, or with a
// window one for each pair of chunks, such that every query's keys come in the order of positions. None where the mask
// leaves nothing.
TUTTI_API std::vector<AttentionBlock> visible_blocks(const AttentionMask& mask,
                                                     const std::vector<SequenceChunk>& queries,
                                                     const std::vector<SequenceChunk>& keys);

// The distance on the ring, whose ranks hold `chunks`, from `key_rank` to the last rank whose queries see some of its
// keys: the keys need to go no further. 0: no other rank sees any.
TUTTI_API std::size_t reach_of_keys(const AttentionMask& mask, const std::vector<std::vector<SequenceChunk>>& chunks,
                                    std::size_t key_rank);

}  // namespace tutti::parallel
