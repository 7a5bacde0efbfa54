// Attention over a sequence whose queries, keys and values are split over a ring of ranks: each keeps its queries, and
// keys and values go round, block by block, while the present block is computed. Blocks that a causal mask empties are
// not computed; with the zigzag placement all ranks then compute equally much in every step.
//
// Sources: Liu et al. 2023, "Ring Attention with Blockwise Transformers for Near-Infinite Context"; for the merging of
// blocks see attention_compute.h, for the placement sequence_placement.h.
//
// With a block of B bytes - a rank's keys, or its values - a rank of P sends 2 (P - 1) B forward and 4 (P - 1) B
// backward: keys and values go P - 1 steps once more, and their gradients, which begin at the first rank that is not
// the owner, as many until they are with him.
//
// Queries, keys and values are mixed as by Megatron: qkv [rows, batch, heads, 3, width], where rows are this rank's
// part of the sequence. So one copy packs keys and values before they are sent, and one writes their gradients back;
// all else is computed where it lies. Thread-safety: one thread at a time.
#pragma once

#include "tutti/parallel/attention_compute.h"
#include "tutti/parallel/process_group.h"
#include "tutti/parallel/sequence_placement.h"

namespace tutti::parallel {

class RingAttention {
 public:
  // `group` and `attention` outlive this.
  RingAttention(ProcessGroup& group, AttentionCompute& attention, SequencePlacement placement, bool causal)
      : group_(group), attention_(attention), placement_(placement), causal_(causal) {}

  // Collective, both. out [rows, batch, heads, width]; lse [rows, batch, heads, 1], for backward.
  void forward(const Tensor& qkv, const Tensor& out, const Tensor& lse);
  void backward(const Tensor& qkv, const Tensor& out, const Tensor& lse, const Tensor& grad_out,
                const Tensor& grad_qkv);

 private:
  Buffer PackedKeysAndValues(const Tensor& qkv);
  // The part that this rank's queries see of the keys and values of the rank `step` places before it.
  std::optional<AttentionBlock> BlockOf(std::size_t step, std::size_t rows) const;
  // To the next rank, and from the one before, beside what is computed until Compute::join_communication().
  struct Pass {
    const Tensor& send;
    const Tensor& receive;
  };
  void Start(const std::vector<Pass>& passes);

  ProcessGroup& group_;
  AttentionCompute& attention_;
  SequencePlacement placement_;
  bool causal_;
};

}  // namespace tutti::parallel
