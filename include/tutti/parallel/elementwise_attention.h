// AttentionCompute written once for every processor (elementwise_compute.h): an index is a row of queries, or of keys
// and values. Each row's sums go in the order of positions, whatever the blocks are.
//
// Thread-safety: one thread at a time.
#pragma once

#include "tutti/parallel/attention_compute.h"
#include "tutti/parallel/elementwise_compute.h"

namespace tutti::parallel {

TUTTI_ANY_PROCESSOR inline float* row_of(const HeadRows& heads, std::size_t row) {
  return heads.data + row * heads.stride;
}
TUTTI_ANY_PROCESSOR inline void add_scaled(const float* from, float factor, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i] * factor;
}

// How much of each query's softmax is where, and its gradient: p (grad_out . value - delta).
struct BackwardScores {
  HeadRows q, k, v, grad_out, lse, delta;
  float scale;

  TUTTI_ANY_PROCESSOR float probability(std::size_t query, std::size_t key) const {
    return std::exp(row_dot(row_of(q, query), row_of(k, key), q.width) * scale - *row_of(lse, query));
  }
  TUTTI_ANY_PROCESSOR float gradient(std::size_t query, std::size_t key, float p) const {
    return p * (row_dot(row_of(grad_out, query), row_of(v, key), v.width) - *row_of(delta, query)) * scale;
  }
};

// Processor: an ElementwiseCompute.
template <typename Processor>
class ElementwiseAttention final : public AttentionCompute {
 public:
  // `on` outlives this.
  explicit ElementwiseAttention(Processor& on) : on_(on) {}

  Compute& compute() override { return on_; }

  void attend(const AttentionInputs& inputs, const SoftmaxState& state) override {
    const HeadRows q = inputs.q, k = inputs.k, v = inputs.v;
    const bool causal = inputs.causal;
    const auto out = state.out, maxima = state.maxima, sums = state.sums;
    const float scale = ScaleOf(q);
    on_.for_each(q.rows(), [=] TUTTI_ANY_PROCESSOR(std::size_t row) {
      const std::size_t position = row / q.lanes, lane = row % q.lanes;
      float &maximum = *row_of(maxima, row), &sum = *row_of(sums, row);
      for (std::size_t j = 0; j < (causal ? position + 1 : k.positions); ++j) {
        const std::size_t key = j * k.lanes + lane;
        const float score = row_dot(row_of(q, row), row_of(k, key), q.width) * scale;
        // What was summed up so far was relative to a smaller maximum.
        if (sum == 0 || score > maximum) {
          const float factor = sum == 0 ? 0 : std::exp(maximum - score);
          for (std::size_t i = 0; i < q.width; ++i) row_of(out, row)[i] *= factor;
          sum *= factor;
          maximum = score;
        }
        const float weight = std::exp(score - maximum);
        sum += weight;
        add_scaled(row_of(v, key), weight, row_of(out, row), q.width);
      }
    });
  }

  void finish(const SoftmaxState& state) override {
    const auto out = state.out, maxima = state.maxima, sums = state.sums;
    on_.for_each(out.rows(), [=] TUTTI_ANY_PROCESSOR(std::size_t row) {
      const float sum = *row_of(sums, row);
      for (std::size_t i = 0; i < out.width; ++i) row_of(out, row)[i] /= sum;
      *row_of(maxima, row) += std::log(sum);
    });
  }

  void attend_delta(const HeadRows& out, const HeadRows& grad_out, const HeadRows& delta) override {
    const auto left = out, right = grad_out, to = delta;
    on_.for_each(left.rows(), [=] TUTTI_ANY_PROCESSOR(std::size_t row) {
      *row_of(to, row) = row_dot(row_of(left, row), row_of(right, row), left.width);
    });
  }

  // Rows of queries first, then rows of keys and values, so that each index writes its own rows only; both work the
  // probabilities out anew.
  void attend_backward(const AttentionInputs& inputs, const HeadRows& grad_out, const HeadRows& lse,
                       const HeadRows& delta, const HeadRows& grad_q, const HeadRows& grad_k,
                       const HeadRows& grad_v) override {
    const BackwardScores scores{inputs.q, inputs.k, inputs.v, grad_out, lse, delta, ScaleOf(inputs.q)};
    const bool causal = inputs.causal;
    const HeadRows to_q = grad_q, to_k = grad_k, to_v = grad_v;
    on_.for_each(to_q.rows(), [=] TUTTI_ANY_PROCESSOR(std::size_t query) {
      const std::size_t position = query / to_q.lanes, lane = query % to_q.lanes;
      for (std::size_t j = 0; j < (causal ? position + 1 : to_k.positions); ++j) {
        const std::size_t key = j * to_k.lanes + lane;
        const float gradient = scores.gradient(query, key, scores.probability(query, key));
        add_scaled(row_of(scores.k, key), gradient, row_of(to_q, query), to_q.width);
      }
    });
    on_.for_each(to_k.rows(), [=] TUTTI_ANY_PROCESSOR(std::size_t key) {
      const std::size_t position = key / to_k.lanes, lane = key % to_k.lanes;
      for (std::size_t i = causal ? position : 0; i < to_q.positions; ++i) {
        const std::size_t query = i * to_q.lanes + lane;
        const float p = scores.probability(query, key);
        add_scaled(row_of(scores.q, query), scores.gradient(query, key, p), row_of(to_k, key), to_k.width);
        add_scaled(row_of(scores.grad_out, query), p, row_of(to_v, key), to_v.width);
      }
    });
  }

 private:
  static float ScaleOf(const HeadRows& q) { return 1 / std::sqrt(static_cast<float>(q.width)); }

  Processor& on_;
};

}  // namespace tutti::parallel
