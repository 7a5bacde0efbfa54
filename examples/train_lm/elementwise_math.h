// A transformer's mathematics, written once for every processor (tutti/parallel/elementwise_compute.h): each index is a
// row, a column, or a row of a head.
//
// Thread-safety: one thread at a time.
#pragma once

#include <numbers>

#include "model_math.h"
#include "tutti/parallel/elementwise_compute.h"

namespace train_lm {

// Where a head's queries, keys or values, and its part of the output, lie.
class HeadRows {
 public:
  TUTTI_ANY_PROCESSOR HeadRows(const AttentionShape& shape, std::size_t sample, std::size_t head)
      : shape_(shape), sample_(sample), head_(head) {}

  TUTTI_ANY_PROCESSOR std::size_t query(std::size_t at) const { return 3 * out(at); }
  TUTTI_ANY_PROCESSOR std::size_t key(std::size_t at) const { return query(at) + shape_.width; }
  TUTTI_ANY_PROCESSOR std::size_t value(std::size_t at) const { return key(at) + shape_.width; }
  TUTTI_ANY_PROCESSOR std::size_t out(std::size_t at) const {
    return ((at * shape_.batch + sample_) * shape_.heads + head_) * shape_.width;
  }
  TUTTI_ANY_PROCESSOR std::size_t probabilities(std::size_t at) const {
    return ((sample_ * shape_.heads + head_) * shape_.sequence + at) * shape_.sequence;
  }

 private:
  AttentionShape shape_;
  std::size_t sample_, head_;
};

// Index `i` of all rows of all heads.
struct HeadRow {
  HeadRows head;
  std::size_t at;

  TUTTI_ANY_PROCESSOR HeadRow(const AttentionShape& shape, std::size_t i)
      : head(shape, i / shape.sequence / shape.heads, i / shape.sequence % shape.heads), at(i % shape.sequence) {}
};

TUTTI_ANY_PROCESSOR inline float Dot(const float* a, const float* b, std::size_t count) {
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}
TUTTI_ANY_PROCESSOR inline void AddScaled(const float* from, float factor, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i] * factor;
}

inline constexpr float kLayerNormEpsilon = 1e-5F;
inline constexpr float kGeluScale = std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float>;
inline constexpr float kGeluCubic = 0.044715F;
TUTTI_ANY_PROCESSOR inline float GeluTanh(float x) { return std::tanh(kGeluScale * (x + kGeluCubic * x * x * x)); }

// Processor: an ElementwiseCompute.
template <typename Processor>
class ElementwiseMath final : public Math {
 public:
  template <typename... Arguments>
  explicit ElementwiseMath(Arguments&&... arguments) : on_(std::forward<Arguments>(arguments)...) {}

  Compute& compute() override { return on_; }

  void add(const Tensor& a, const Tensor& b, const Tensor& out) override {
    const float *const left = a.floats(), *const right = b.floats();
    float* const to = out.floats();
    on_.for_each(out.count(), [=] TUTTI_ANY_PROCESSOR(std::size_t i) { to[i] = left[i] + right[i]; });
  }

  void layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, const Tensor& y,
                  const Tensor& statistics) override {
    const auto from = tutti::parallel::matrix_of(x), to = tutti::parallel::matrix_of(y);
    const float *const gains = gain.floats(), *const biases = bias.floats();
    float* const kept = statistics.floats();
    on_.for_each(from.rows, [=] TUTTI_ANY_PROCESSOR(std::size_t row) {
      const float* const in = from[row];
      const auto width = static_cast<float>(from.columns);
      float mean = 0, variance = 0;
      for (std::size_t i = 0; i < from.columns; ++i) mean += in[i];
      mean /= width;
      for (std::size_t i = 0; i < from.columns; ++i) variance += (in[i] - mean) * (in[i] - mean);
      const float scale = 1 / std::sqrt(variance / width + kLayerNormEpsilon);
      for (std::size_t i = 0; i < from.columns; ++i) to[row][i] = (in[i] - mean) * scale * gains[i] + biases[i];
      kept[2 * row] = mean;
      kept[2 * row + 1] = scale;
    });
  }

  void layer_norm_backward(const Tensor& x, const Tensor& gain, const Tensor& statistics, const Tensor& grad_y,
                           const Tensor& grad_gain, const Tensor& grad_bias, const Tensor& grad_x) override {
    const auto from = tutti::parallel::matrix_of(x), grads = tutti::parallel::matrix_of(grad_y),
               to = tutti::parallel::matrix_of(grad_x);
    const float *const gains = gain.floats(), *const kept = statistics.floats();
    float *const to_gain = grad_gain.floats(), *const to_bias = grad_bias.floats();
    on_.for_each(from.columns, [=] TUTTI_ANY_PROCESSOR(std::size_t i) {
      for (std::size_t row = 0; row < from.rows; ++row) {
        to_gain[i] += grads[row][i] * (from[row][i] - kept[2 * row]) * kept[2 * row + 1];
        to_bias[i] += grads[row][i];
      }
    });
    on_.for_each(from.rows, [=] TUTTI_ANY_PROCESSOR(std::size_t row) {
      const float mean = kept[2 * row], scale = kept[2 * row + 1];
      float sum = 0, projection = 0;
      for (std::size_t i = 0; i < from.columns; ++i) {
        sum += grads[row][i] * gains[i];
        projection += grads[row][i] * gains[i] * (from[row][i] - mean) * scale;
      }
      sum /= static_cast<float>(from.columns);
      projection /= static_cast<float>(from.columns);
      for (std::size_t i = 0; i < from.columns; ++i) {
        to[row][i] += (grads[row][i] * gains[i] - sum - (from[row][i] - mean) * scale * projection) * scale;
      }
    });
  }

  void gelu(const Tensor& x, const Tensor& y) override {
    const float* const from = x.floats();
    float* const to = y.floats();
    on_.for_each(x.count(),
                 [=] TUTTI_ANY_PROCESSOR(std::size_t i) { to[i] = 0.5F * from[i] * (1 + GeluTanh(from[i])); });
  }

  void gelu_backward(const Tensor& x, const Tensor& grad_y, const Tensor& grad_x) override {
    const float *const from = x.floats(), *const grad = grad_y.floats();
    float* const to = grad_x.floats();
    on_.for_each(x.count(), [=] TUTTI_ANY_PROCESSOR(std::size_t i) {
      const float value = from[i], tanh = GeluTanh(value);
      const float slope = kGeluScale * (1 + 3 * kGeluCubic * value * value);
      to[i] = grad[i] * (0.5F * (1 + tanh) + 0.5F * value * (1 - tanh * tanh) * slope);
    });
  }

  void attention(const AttentionShape& shape, const Tensor& qkv, const Tensor& probabilities,
                 const Tensor& out) override {
    const float scale = 1 / std::sqrt(static_cast<float>(shape.width));
    const float* const in = qkv.floats();
    float *const weights = probabilities.floats(), *const to = out.floats();
    on_.for_each(RowsOf(shape), [=] TUTTI_ANY_PROCESSOR(std::size_t i) {
      const HeadRow row(shape, i);
      const auto& [head, at] = row;
      float *const weight = weights + head.probabilities(at), *const result = to + head.out(at);
      const std::size_t seen = at + 1;  // causal
      float maximum = 0, sum = 0;
      for (std::size_t j = 0; j < seen; ++j) {
        weight[j] = Dot(in + head.query(at), in + head.key(j), shape.width) * scale;
        maximum = j == 0 || weight[j] > maximum ? weight[j] : maximum;
      }
      for (std::size_t j = 0; j < seen; ++j) sum += weight[j] = std::exp(weight[j] - maximum);
      for (std::size_t c = 0; c < shape.width; ++c) result[c] = 0;
      for (std::size_t j = 0; j < seen; ++j) {
        weight[j] /= sum;
        AddScaled(in + head.value(j), weight[j], result, shape.width);
      }
    });
  }

  // With D = grad_out . out, a score's gradient is p (grad_out . value - D) (Dao et al. 2022, FlashAttention).
  void attention_backward(const AttentionShape& shape, const Tensor& qkv, const Tensor& probabilities,
                          const Tensor& out, const Tensor& grad_out, const Tensor& grad_qkv) override {
    const float scale = 1 / std::sqrt(static_cast<float>(shape.width));
    const float *const in = qkv.floats(), *const weights = probabilities.floats();
    const float *const outs = out.floats(), *const grads = grad_out.floats();
    float* const to = grad_qkv.floats();
    // One row is one query's, and one key's and value's.
    on_.for_each(RowsOf(shape), [=] TUTTI_ANY_PROCESSOR(std::size_t i) {
      const HeadRow row(shape, i);
      const auto& [head, mine] = row;
      const auto score_gradient = [&](std::size_t at, std::size_t key) {
        const float* const grad = grads + head.out(at);
        const float all = Dot(grad, outs + head.out(at), shape.width);
        const float one = Dot(grad, in + head.value(key), shape.width);
        return weights[head.probabilities(at) + key] * (one - all) * scale;
      };
      for (std::size_t c = 0; c < shape.width; ++c) {
        to[head.query(mine) + c] = to[head.key(mine) + c] = to[head.value(mine) + c] = 0;
      }
      for (std::size_t key = 0; key <= mine; ++key) {
        AddScaled(in + head.key(key), score_gradient(mine, key), to + head.query(mine), shape.width);
      }
      for (std::size_t at = mine; at < shape.sequence; ++at) {
        AddScaled(in + head.query(at), score_gradient(at, mine), to + head.key(mine), shape.width);
        AddScaled(grads + head.out(at), weights[head.probabilities(at) + mine], to + head.value(mine), shape.width);
      }
    });
  }

  void adam(const AdamStep& step, const Tensor& grad, const Tensor& first_moment, const Tensor& second_moment,
            const Tensor& parameter) override {
    const float first_correction = 1 - std::pow(step.beta1, static_cast<float>(step.step));
    const float second_correction = 1 - std::pow(step.beta2, static_cast<float>(step.step));
    const float* const grads = grad.floats();
    float *const m = first_moment.floats(), *const v = second_moment.floats(), *const to = parameter.floats();
    on_.for_each(parameter.count(), [=] TUTTI_ANY_PROCESSOR(std::size_t i) {
      m[i] = step.beta1 * m[i] + (1 - step.beta1) * grads[i];
      v[i] = step.beta2 * v[i] + (1 - step.beta2) * grads[i] * grads[i];
      to[i] -= step.learning_rate * (m[i] / first_correction) / (std::sqrt(v[i] / second_correction) + step.epsilon);
    });
  }

 private:
  static std::size_t RowsOf(const AttentionShape& shape) { return shape.batch * shape.heads * shape.sequence; }

  Processor on_;
};

}  // namespace train_lm
