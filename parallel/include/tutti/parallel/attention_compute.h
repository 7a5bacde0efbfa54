// Attention between a block of queries and a block of keys and values, forward and backward, such that blocks can
// follow each other: the computation that context parallelism needs. ElementwiseAttention does it by plain loops on
// every processor; an application on a GPU may bring a fused kernel.
//
// Sources: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"; Dao et al. 2022, "FlashAttention",
// and Dao 2023, "FlashAttention-2" (the backward pass from the log-sum-exp alone); Ainslie et al. 2023, "GQA" (groups
// of heads of queries, each with one head of keys and values).
//
// Queries, keys, values, the output and its gradient are float32 or bfloat16, all of one type in a call. Sums over
// blocks - the softmax's state, and the gradients of queries, keys and values - are float32; the caller rounds them
// after the last block. Scores are scaled by 1 / sqrt(width) (Vaswani et al. 2017). Everything happens in the order of
// calls on compute().stream(). The caller checks shapes and types. Thread-safety: one thread at a time.
#pragma once

#include "tutti/parallel/attention_mask.h"
#include "tutti/parallel/compute.h"

namespace tutti::parallel {

// A row of `width` elements for each lane of each position; a lane is a head of a sample. The rows of a position are
// ordered by sample, then head. The heads of a group lie one behind the other, `group` of them, and the groups' first
// rows are `stride` elements apart.
struct TUTTI_API HeadRows {
  void* data = nullptr;
  tuttiDataType_t dtype = tuttiFloat32;
  std::size_t positions = 0;
  std::size_t lanes = 0;  // batch * heads
  std::size_t group = 1;
  std::size_t width = 0;
  std::size_t stride = 0;

  HeadRows() = default;
  // A view of a tensor [positions, batch, heads, width].
  HeadRows(const Tensor& tensor);  // NOLINT: a view of it, as such as good as the tensor
  // Parts [first, first + count) of a tensor [positions, batch, groups, parts, width].
  HeadRows(const Tensor& tensor, std::size_t first, std::size_t count);

  std::size_t rows() const { return positions * lanes; }
  // Positions [first, first + count).
  HeadRows range(std::size_t first, std::size_t count) const;
};

// Views of mixed queries, keys and values (mixed_heads.h), or of keys and values alone: [positions, batch, kv_heads, 2,
// width].
TUTTI_API HeadRows queries_of(const Tensor& mixed);
TUTTI_API HeadRows keys_of(const Tensor& mixed);
TUTTI_API HeadRows values_of(const Tensor& mixed);

// Queries, and the keys and values that they see, as in an AttentionBlock. k and v have as many lanes as q, or a part
// of them: then equally many neighbouring lanes of q see one lane of k and v.
struct TUTTI_API AttentionInputs {
  HeadRows q, k, v;
  AttentionMask mask = {};
  std::size_t lead = 0;
};

// The state of each query after the blocks that it has seen: the largest score, the sum of exp(score - maximum), and
// that sum with each term times its value. All zeros: it has seen none. maxima and sums have width 1. float32.
struct TUTTI_API SoftmaxState {
  HeadRows out, maxima, sums;
};

class TUTTI_API AttentionCompute {
 public:
  virtual ~AttentionCompute() = default;
  virtual Compute& compute() = 0;

  // Adds one more block to the state of inputs.q.
  virtual void attend(const AttentionInputs& inputs, const SoftmaxState& state) = 0;
  // Writes the attention's output to `out`, and the scores' log-sum-exp, which backward needs, to state.maxima. `out`
  // may be state.out.
  virtual void finish(const SoftmaxState& state, const HeadRows& out) = 0;

  // delta (width 1, float32): grad_out . out of each row.
  virtual void attend_delta(const HeadRows& out, const HeadRows& grad_out, const HeadRows& delta) = 0;
  // Adds a block's gradients to those of q, k and v, which are float32. lse: what finish() left in maxima.
  virtual void attend_backward(const AttentionInputs& inputs, const HeadRows& grad_out, const HeadRows& lse,
                               const HeadRows& delta, const HeadRows& grad_q, const HeadRows& grad_k,
                               const HeadRows& grad_v) = 0;
};

}  // namespace tutti::parallel
