// What context parallelism needs computed: attention between a block of queries and a block of keys and values, forward
// and backward, such that blocks can come one after the other. ElementwiseAttention does it by plain loops on every
// processor; an application on a GPU may bring a fused kernel.
//
// Sources: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"; Dao et al. 2022, "FlashAttention",
// and Dao 2023, "FlashAttention-2" (the backward pass from the log-sum-exp alone).
//
// Everything is float32, scaled by 1 / sqrt(width) (Vaswani et al. 2017), and happens in the order of calls on
// compute().stream(). Shapes are the caller's to check. Thread-safety: one thread at a time.
#pragma once

#include "tutti/parallel/compute.h"

namespace tutti::parallel {

// A row for each position of each sample's heads, which lie [position, batch, head]: row r begins at data + r * stride.
struct HeadRows {
  float* data = nullptr;
  std::size_t positions = 0;
  std::size_t lanes = 0;  // batch * heads
  std::size_t width = 0;
  std::size_t stride = 0;

  HeadRows() = default;
  // Of a tensor [positions, batch, heads, width].
  HeadRows(const Tensor& tensor);  // NOLINT: a view of it, as such as good as the tensor
  // Part `part` of a tensor [positions, batch, heads, parts, width], such as the keys of mixed queries, keys and
  // values.
  HeadRows(const Tensor& tensor, std::size_t part);

  std::size_t rows() const { return positions * lanes; }
  // Positions [first, first + count).
  HeadRows range(std::size_t first, std::size_t count) const;
};

// Queries, and the keys and values that they see: all, or key j only if j <= i for query i.
struct AttentionInputs {
  HeadRows q, k, v;
  bool causal = false;
};

// Of each query after the blocks that it has seen: the largest score, the sum of exp(score - maximum), and that sum
// with each term times its value. All zeros: it has seen none. maxima and sums have width 1.
struct SoftmaxState {
  HeadRows out, maxima, sums;
};

class AttentionCompute {
 public:
  virtual ~AttentionCompute() = default;
  virtual Compute& compute() = 0;

  // The state of inputs.q takes in one more block.
  virtual void attend(const AttentionInputs& inputs, const SoftmaxState& state) = 0;
  // out becomes the attention's output, and maxima the scores' log-sum-exp, which backward needs.
  virtual void finish(const SoftmaxState& state) = 0;

  // delta (width 1): grad_out . out of each row.
  virtual void attend_delta(const HeadRows& out, const HeadRows& grad_out, const HeadRows& delta) = 0;
  // A block's gradients, added to those of q, k and v. lse: what finish() left in maxima.
  virtual void attend_backward(const AttentionInputs& inputs, const HeadRows& grad_out, const HeadRows& lse,
                               const HeadRows& delta, const HeadRows& grad_q, const HeadRows& grad_k,
                               const HeadRows& grad_v) = 0;
};

}  // namespace tutti::parallel
