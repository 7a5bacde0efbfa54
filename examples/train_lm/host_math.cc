#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "model_math.h"

#ifdef TRAIN_LM_OPENBLAS
#include <cblas.h>
#endif

namespace train_lm {
namespace {

using tutti::parallel::HostCompute;
using tutti::parallel::Transposed;

constexpr float kLayerNormEpsilon = 1e-5F;

#ifdef TRAIN_LM_OPENBLAS
void Sgemm(Transposed a_transposed, Transposed b_transposed, std::size_t m, std::size_t n, std::size_t k,
           const float* a, const float* b, float* c, bool accumulate) {
  const auto order = [](Transposed transposed) { return transposed == Transposed::yes ? CblasTrans : CblasNoTrans; };
  const auto integer = [](std::size_t value) { return static_cast<blasint>(value); };
  cblas_sgemm(CblasRowMajor, order(a_transposed), order(b_transposed), integer(m), integer(n), integer(k), 1.0F, a,
              integer(a_transposed == Transposed::yes ? m : k), b, integer(b_transposed == Transposed::yes ? k : n),
              accumulate ? 1.0F : 0.0F, c, integer(n));
}
#endif

float* Row(const Tensor& matrix, std::size_t row) { return matrix.floats() + row * matrix.columns(); }

// One head of one sample: where its queries, keys or values, and its part of the output, lie.
class Head {
 public:
  Head(const AttentionShape& shape, std::size_t sample, std::size_t head)
      : shape_(shape), sample_(sample), head_(head) {}

  std::size_t query(std::size_t at) const { return 3 * out(at); }
  std::size_t key(std::size_t at) const { return query(at) + shape_.width; }
  std::size_t value(std::size_t at) const { return key(at) + shape_.width; }
  std::size_t out(std::size_t at) const {
    return ((at * shape_.batch + sample_) * shape_.heads + head_) * shape_.width;
  }
  std::size_t probabilities(std::size_t at) const {
    return ((sample_ * shape_.heads + head_) * shape_.sequence + at) * shape_.sequence;
  }

 private:
  const AttentionShape& shape_;
  std::size_t sample_, head_;
};

void ForEachHead(const AttentionShape& shape, const std::function<void(const Head&)>& call) {
  for (std::size_t sample = 0; sample < shape.batch; ++sample) {
    for (std::size_t head = 0; head < shape.heads; ++head) call(Head(shape, sample, head));
  }
}

float Dot(const float* a, const float* b, std::size_t count) {
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void AddScaled(const float* from, float factor, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i] * factor;
}

class HostMath final : public Math {
 public:
  Compute& compute() override { return compute_; }
  void add(const Tensor& a, const Tensor& b, const Tensor& out) override {
    std::transform(a.floats(), a.floats() + a.count(), b.floats(), out.floats(), std::plus<>());
  }

  void layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, const Tensor& y,
                  const Tensor& statistics) override {
    const std::size_t width = x.columns();
    for (std::size_t row = 0; row < x.rows(); ++row) {
      const float* const in = Row(x, row);
      float mean = 0, variance = 0;
      for (std::size_t i = 0; i < width; ++i) mean += in[i];
      mean /= static_cast<float>(width);
      for (std::size_t i = 0; i < width; ++i) variance += (in[i] - mean) * (in[i] - mean);
      const float scale = 1 / std::sqrt(variance / static_cast<float>(width) + kLayerNormEpsilon);
      for (std::size_t i = 0; i < width; ++i) {
        Row(y, row)[i] = (in[i] - mean) * scale * gain.floats()[i] + bias.floats()[i];
      }
      statistics.floats()[2 * row] = mean;
      statistics.floats()[2 * row + 1] = scale;
    }
  }

  void layer_norm_backward(const Tensor& x, const Tensor& gain, const Tensor& statistics, const Tensor& grad_y,
                           const Tensor& grad_gain, const Tensor& grad_bias, const Tensor& grad_x) override {
    const std::size_t width = x.columns();
    for (std::size_t row = 0; row < x.rows(); ++row) {
      const float mean = statistics.floats()[2 * row], scale = statistics.floats()[2 * row + 1];
      const float *const in = Row(x, row), *const grad = Row(grad_y, row);
      float sum = 0, projection = 0;
      for (std::size_t i = 0; i < width; ++i) {
        const float normal = (in[i] - mean) * scale, weighted = grad[i] * gain.floats()[i];
        sum += weighted;
        projection += weighted * normal;
        grad_gain.floats()[i] += grad[i] * normal;
        grad_bias.floats()[i] += grad[i];
      }
      sum /= static_cast<float>(width);
      projection /= static_cast<float>(width);
      for (std::size_t i = 0; i < width; ++i) {
        const float normal = (in[i] - mean) * scale;
        Row(grad_x, row)[i] += (grad[i] * gain.floats()[i] - sum - normal * projection) * scale;
      }
    }
  }

  void gelu(const Tensor& x, const Tensor& y) override {
    std::transform(x.floats(), x.floats() + x.count(), y.floats(),
                   [](float value) { return 0.5F * value * (1 + std::tanh(Inner(value))); });
  }

  void gelu_backward(const Tensor& x, const Tensor& grad_y, const Tensor& grad_x) override {
    std::transform(x.floats(), x.floats() + x.count(), grad_y.floats(), grad_x.floats(), [](float value, float grad) {
      const float tanh = std::tanh(Inner(value));
      const float slope = kGeluScale * (1 + 3 * kGeluCubic * value * value);
      return grad * (0.5F * (1 + tanh) + 0.5F * value * (1 - tanh * tanh) * slope);
    });
  }

  void attention(const AttentionShape& shape, const Tensor& qkv, const Tensor& probabilities,
                 const Tensor& out) override {
    const float scale = 1 / std::sqrt(static_cast<float>(shape.width));
    const float* const in = qkv.floats();
    std::fill_n(out.floats(), out.count(), 0.0F);
    ForEachHead(shape, [&](const Head& head) {
      for (std::size_t at = 0; at < shape.sequence; ++at) {
        float* const row = probabilities.floats() + head.probabilities(at);
        const std::size_t seen = at + 1;  // causal
        for (std::size_t i = 0; i < seen; ++i) {
          row[i] = Dot(in + head.query(at), in + head.key(i), shape.width) * scale;
        }
        const float maximum = *std::max_element(row, row + seen);
        float sum = 0;
        for (std::size_t i = 0; i < seen; ++i) sum += row[i] = std::exp(row[i] - maximum);
        for (std::size_t i = 0; i < seen; ++i) {
          row[i] /= sum;
          AddScaled(in + head.value(i), row[i], out.floats() + head.out(at), shape.width);
        }
      }
    });
  }

  void attention_backward(const AttentionShape& shape, const Tensor& qkv, const Tensor& probabilities,
                          const Tensor& grad_out, const Tensor& grad_qkv) override {
    const float scale = 1 / std::sqrt(static_cast<float>(shape.width));
    const float* const in = qkv.floats();
    float* const grad = grad_qkv.floats();
    std::fill_n(grad, grad_qkv.count(), 0.0F);
    std::vector<float> grad_row(shape.sequence);
    ForEachHead(shape, [&](const Head& head) {
      for (std::size_t at = 0; at < shape.sequence; ++at) {
        const float* const row = probabilities.floats() + head.probabilities(at);
        const float* const grad_at = grad_out.floats() + head.out(at);
        float projection = 0;
        for (std::size_t i = 0; i <= at; ++i) {
          grad_row[i] = Dot(grad_at, in + head.value(i), shape.width);
          projection += grad_row[i] * row[i];
          AddScaled(grad_at, row[i], grad + head.value(i), shape.width);
        }
        for (std::size_t i = 0; i <= at; ++i) {
          const float score = row[i] * (grad_row[i] - projection) * scale;
          AddScaled(in + head.key(i), score, grad + head.query(at), shape.width);
          AddScaled(in + head.query(at), score, grad + head.key(i), shape.width);
        }
      }
    });
  }

  void adam(const AdamStep& step, const Tensor& grad, const Tensor& first_moment, const Tensor& second_moment,
            const Tensor& parameter) override {
    const float first_correction = 1 - std::pow(step.beta1, static_cast<float>(step.step));
    const float second_correction = 1 - std::pow(step.beta2, static_cast<float>(step.step));
    for (std::size_t i = 0; i < parameter.count(); ++i) {
      const float g = grad.floats()[i];
      float& m = first_moment.floats()[i];
      float& v = second_moment.floats()[i];
      m = step.beta1 * m + (1 - step.beta1) * g;
      v = step.beta2 * v + (1 - step.beta2) * g * g;
      parameter.floats()[i] -=
          step.learning_rate * (m / first_correction) / (std::sqrt(v / second_correction) + step.epsilon);
    }
  }

 private:
  static constexpr float kGeluScale = std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float>;
  static constexpr float kGeluCubic = 0.044715F;
  static float Inner(float value) { return kGeluScale * (value + kGeluCubic * value * value * value); }

#ifdef TRAIN_LM_OPENBLAS
  HostCompute compute_{Sgemm};
#else
  HostCompute compute_;
#endif
};

}  // namespace

std::unique_ptr<Math> make_host_math() {
#ifdef TRAIN_LM_OPENBLAS
  openblas_set_num_threads(1);  // a rank is one core
#endif
  return std::make_unique<HostMath>();
}

}  // namespace train_lm
