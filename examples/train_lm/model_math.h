// A transformer's mathematics beyond its parallel layers, in float32: the interface, and one form of it for every
// processor (tutti/parallel/elementwise_compute.h), of which each index is a row or a column.
//
// Everything runs in call order. Thread-safety: one thread at a time.
#pragma once

#include <memory>

#include "tutti/parallel/elementwise_attention.h"

namespace train_lm {

using tutti::parallel::Buffer;
using tutti::parallel::Compute;
using tutti::parallel::Tensor;

struct AdamStep {
  float learning_rate;
  // As for Llama 2 (Touvron et al. 2023). A smaller epsilon would amplify rounding errors of gradients near 0.
  float beta1 = 0.9F, beta2 = 0.95F;
  float epsilon = 1e-5F;
  int step = 1;  // 1, 2, ...: for the correction of the bias (Kingma and Ba 2015)
};

class Math {
 public:
  virtual ~Math() = default;
  virtual Compute& compute() = 0;
  virtual tutti::parallel::AttentionCompute& attention() = 0;

  // out = a + b. out may be a or b.
  virtual void add(const Tensor& a, const Tensor& b, const Tensor& out) = 0;
  // Over the last dimension (Zhang and Sennrich 2019, "RMSNorm"); scales: 1 / root mean square of each row.
  virtual void norm(const Tensor& x, const Tensor& gain, const Tensor& y, const Tensor& scales) = 0;
  // Adds to grad_x and grad_gain.
  virtual void norm_backward(const Tensor& x, const Tensor& gain, const Tensor& scales, const Tensor& grad_y,
                             const Tensor& grad_x, const Tensor& grad_gain) = 0;
  // x times its sigmoid (Elfwing et al. 2017). grad_x may be grad_y.
  virtual void silu(const Tensor& x, const Tensor& y) = 0;
  virtual void silu_backward(const Tensor& x, const Tensor& grad_y, const Tensor& grad_x) = 0;
  virtual void adam(const AdamStep& step, const Tensor& grad, const Tensor& first_moment, const Tensor& second_moment,
                    const Tensor& parameter) = 0;
};

// For the processor that the program is built for: the host (host_math.cc), or the CUDA device with that number (modulo
// the number of devices), which becomes this thread's (cuda_math.cu).
std::unique_ptr<Math> make_math(int device);

inline constexpr float kNormEpsilon = 1e-5F;
TUTTI_ANY_PROCESSOR inline float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

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

  void norm(const Tensor& x, const Tensor& gain, const Tensor& y, const Tensor& scales) override {
    const auto from = tutti::parallel::matrix_of(x), to = tutti::parallel::matrix_of(y);
    const float* const gains = gain.floats();
    float* const kept = scales.floats();
    on_.for_each(from.rows, [=] TUTTI_ANY_PROCESSOR(std::size_t row) {
      float squares = 0;
      for (std::size_t i = 0; i < from.columns; ++i) squares += from[row][i] * from[row][i];
      kept[row] = 1 / std::sqrt(squares / static_cast<float>(from.columns) + kNormEpsilon);
      for (std::size_t i = 0; i < from.columns; ++i) to[row][i] = from[row][i] * kept[row] * gains[i];
    });
  }

  void norm_backward(const Tensor& x, const Tensor& gain, const Tensor& scales, const Tensor& grad_y,
                     const Tensor& grad_x, const Tensor& grad_gain) override {
    const auto from = tutti::parallel::matrix_of(x), grads = tutti::parallel::matrix_of(grad_y),
               to = tutti::parallel::matrix_of(grad_x);
    const float *const gains = gain.floats(), *const kept = scales.floats();
    float* const to_gain = grad_gain.floats();
    on_.for_each(from.rows, [=] TUTTI_ANY_PROCESSOR(std::size_t row) {
      float projection = 0;
      for (std::size_t i = 0; i < from.columns; ++i) projection += grads[row][i] * gains[i] * from[row][i];
      projection *= kept[row] * kept[row] / static_cast<float>(from.columns);
      for (std::size_t i = 0; i < from.columns; ++i) {
        to[row][i] += kept[row] * (grads[row][i] * gains[i] - from[row][i] * projection);
      }
    });
    on_.for_each(from.columns, [=] TUTTI_ANY_PROCESSOR(std::size_t i) {
      for (std::size_t row = 0; row < from.rows; ++row) to_gain[i] += grads[row][i] * from[row][i] * kept[row];
    });
  }

  void silu(const Tensor& x, const Tensor& y) override {
    const float* const from = x.floats();
    float* const to = y.floats();
    on_.for_each(x.count(), [=] TUTTI_ANY_PROCESSOR(std::size_t i) { to[i] = from[i] * Sigmoid(from[i]); });
  }

  void silu_backward(const Tensor& x, const Tensor& grad_y, const Tensor& grad_x) override {
    const float *const from = x.floats(), *const grad = grad_y.floats();
    float* const to = grad_x.floats();
    on_.for_each(x.count(), [=] TUTTI_ANY_PROCESSOR(std::size_t i) {
      const float sigmoid = Sigmoid(from[i]);
      to[i] = grad[i] * sigmoid * (1 + from[i] * (1 - sigmoid));
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
