// A transformer's mathematics beyond its parallel layers, on one processor. Everything is float32 and runs in call
// order. Thread-safety: one thread at a time.
#pragma once

#include <memory>

#include "tutti/parallel/attention_compute.h"

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
  // Over the last dimension (Ba et al. 2016); statistics: mean and 1 / deviation of each row.
  virtual void layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, const Tensor& y,
                          const Tensor& statistics) = 0;
  // Adds to grad_x, and to grad_gain and grad_bias.
  virtual void layer_norm_backward_input(const Tensor& x, const Tensor& gain, const Tensor& statistics,
                                         const Tensor& grad_y, const Tensor& grad_x) = 0;
  virtual void layer_norm_backward_weight(const Tensor& x, const Tensor& statistics, const Tensor& grad_y,
                                          const Tensor& grad_gain, const Tensor& grad_bias) = 0;
  // The tanh form (Hendrycks and Gimpel 2016).
  virtual void gelu(const Tensor& x, const Tensor& y) = 0;
  virtual void gelu_backward(const Tensor& x, const Tensor& grad_y, const Tensor& grad_x) = 0;
  virtual void adam(const AdamStep& step, const Tensor& grad, const Tensor& first_moment, const Tensor& second_moment,
                    const Tensor& parameter) = 0;
};

// For the processor that the program is built for: the host, with OpenBLAS where the build found it, or the CUDA device
// with that number (modulo the number of devices), which becomes this thread's.
std::unique_ptr<Math> make_math(int device);

}  // namespace train_lm
