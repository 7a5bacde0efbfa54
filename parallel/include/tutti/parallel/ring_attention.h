// Attention over a sequence whose queries, keys and values are split over a ring of ranks: each rank keeps its queries,
// and keys and values go round, block by block, while the present block is computed. Parts that a mask empties are not
// computed, and a block goes no further than the last rank that sees some of it. With the zigzag placement and a causal
// mask all ranks then compute equally much in every step.
//
// Sources: Liu et al. 2023, "Ring Attention with Blockwise Transformers for Near-Infinite Context"; for the merging of
// blocks see attention_compute.h, for the placement sequence_placement.h.
//
// B: elements of a rank's keys, or of its values, which have kv_heads heads. They go S steps: P - 1 of P ranks, or to
// the last rank that a mask lets see them. So forward sends 2 S B elements, and backward as many and 2 S B float32 of
// their gradients. Ranks may hold different numbers of rows: each message has its owner's, and nothing is padded. The
// gradients begin at the first rank that is not the owner, follow the keys and values, and go from the last rank that
// sees them straight to the owner.
//
// Elements are float32 or bfloat16. Sums over blocks are float32, and rounded once: the softmax's state, the gradients
// of queries, and those of keys and values on their way, to which each rank adds. A sum that travelled in bfloat16
// would be rounded at every rank, and would lose any addend below 2^-9 of it, such as the tokens of one of many ranks.
//
// Queries, keys and values are mixed as by Megatron (mixed_heads.h): qkv [rows, batch, kv_heads, heads / kv_heads + 2,
// width], where rows are this rank's part of the sequence. So one copy packs keys and values before they are sent, and
// one writes their gradients back; all else is computed where it lies, except the sums for bfloat16. Thread-safety: one
// thread at a time.
#pragma once

#include <vector>

#include "tutti/parallel/attention_compute.h"
#include "tutti/parallel/process_group.h"
#include "tutti/parallel/sequence_placement.h"

namespace tutti::parallel {

class TUTTI_API RingAttention {
 public:
  // REQUIRES: cu_seqlens begins with 0, and ascends (sequence_placement.h). `group` and `attention` outlive this.
  RingAttention(ProcessGroup& group, AttentionCompute& attention, SequencePlacement placement,
                const std::vector<std::size_t>& cu_seqlens, AttentionMask mask);

  // The number of positions that this rank holds.
  std::size_t rows() const { return rows_[static_cast<std::size_t>(group_.rank())]; }

  // Both are collective. out [rows, batch, heads, width], of qkv's type; lse [rows, batch, heads, 1], float32, for
  // backward. If `attention` throws midway, this revokes the group's communicator, and its other ranks get an Error.
  void forward(const Tensor& qkv, const Tensor& out, const Tensor& lse);
  void backward(const Tensor& qkv, const Tensor& out, const Tensor& lse, const Tensor& grad_out,
                const Tensor& grad_qkv);

 private:
  class Route;

  ProcessGroup& group_;
  AttentionCompute& attention_;
  AttentionMask mask_;
  std::vector<std::vector<SequenceChunk>> chunks_;  // by rank
  std::vector<std::size_t> rows_, reach_;           // of each rank's keys
};

}  // namespace tutti::parallel
