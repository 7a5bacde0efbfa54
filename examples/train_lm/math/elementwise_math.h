// A transformer's mathematics, written once for every processor (tutti/parallel/elementwise_compute.h): each index is a
// row or a column.
//
// Thread-safety: one thread at a time.
#pragma once

#include <numbers>

#include "model_math.h"
#include "tutti/parallel/elementwise_attention.h"

namespace train_lm {

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
  tutti::parallel::AttentionCompute& attention() override { return attention_; }

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

  void layer_norm_backward_weight(const Tensor& x, const Tensor& statistics, const Tensor& grad_y,
                                  const Tensor& grad_gain, const Tensor& grad_bias) override {
    const auto from = tutti::parallel::matrix_of(x), grads = tutti::parallel::matrix_of(grad_y);
    const float* const kept = statistics.floats();
    float *const to_gain = grad_gain.floats(), *const to_bias = grad_bias.floats();
    on_.for_each(from.columns, [=] TUTTI_ANY_PROCESSOR(std::size_t i) {
      for (std::size_t row = 0; row < from.rows; ++row) {
        to_gain[i] += grads[row][i] * (from[row][i] - kept[2 * row]) * kept[2 * row + 1];
        to_bias[i] += grads[row][i];
      }
    });
  }

  void layer_norm_backward_input(const Tensor& x, const Tensor& gain, const Tensor& statistics, const Tensor& grad_y,
                                 const Tensor& grad_x) override {
    const auto from = tutti::parallel::matrix_of(x), grads = tutti::parallel::matrix_of(grad_y),
               to = tutti::parallel::matrix_of(grad_x);
    const float *const gains = gain.floats(), *const kept = statistics.floats();
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
  Processor on_;
  tutti::parallel::ElementwiseAttention<Processor> attention_{on_};
};

}  // namespace train_lm
