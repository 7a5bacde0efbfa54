// All of Compute but memory, streams and the matrix product, written once for every processor. A processor runs a
// function for each index: the host one after the other, a GPU in as many threads. No index reads or writes what
// another one writes, and sums are added up in a fixed order, so results do not depend on how many run at a time.
//
// A processor on CUDA derives from ElementwiseCompute in a file compiled by nvcc (with --extended-lambda), whose
// for_each launches a kernel on stream(): examples/train_lm/cuda_math.cu.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "tutti/parallel/compute.h"

// Only a macro can say this to both compilers.
#ifdef __CUDACC__
#define TUTTI_ANY_PROCESSOR __host__ __device__
#else
#define TUTTI_ANY_PROCESSOR
#endif

namespace tutti::parallel {

// A matrix in the form that per-index functions take, by value.
template <typename T>
struct MatrixOf {
  T* data;
  std::size_t rows, columns;

  TUTTI_ANY_PROCESSOR T* operator[](std::size_t row) const { return data + row * columns; }
};

inline MatrixOf<float> matrix_of(const Tensor& tensor) { return {tensor.floats(), tensor.rows(), tensor.columns()}; }
inline MatrixOf<const std::int32_t> integers_of(const char* what, const Tensor& tensor) {
  require_type(what, tensor, tuttiInt32);
  return {static_cast<const std::int32_t*>(tensor.data), tensor.rows(), tensor.columns()};
}

// The upper half of a float32.
struct BFloat16 {
  std::uint16_t bits;
};
TUTTI_ANY_PROCESSOR inline float to_float(float value) { return value; }
TUTTI_ANY_PROCESSOR inline float to_float(BFloat16 value) {
  const auto bits = static_cast<std::uint32_t>(value.bits) << 16;
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}
TUTTI_ANY_PROCESSOR inline void assign(float& to, float value) { to = value; }
TUTTI_ANY_PROCESSOR inline void assign(BFloat16& to, float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  constexpr std::uint32_t kQuiet = 0x40;
  if (value != value) {
    to.bits = static_cast<std::uint16_t>((bits >> 16) | kQuiet);
  } else {
    constexpr std::uint32_t kAlmostHalf = 0x7FFF;
    to.bits = static_cast<std::uint16_t>((bits + kAlmostHalf + ((bits >> 16) & 1)) >> 16);
  }
}

template <typename From, typename To>
struct CopyElement {
  const From* from;
  To* to;
  bool accumulate;

  TUTTI_ANY_PROCESSOR void operator()(std::size_t i) const {
    assign(to[i], accumulate ? to_float(to[i]) + to_float(from[i]) : to_float(from[i]));
  }
};

// Copies columns of a row of one matrix to a row of another.
template <typename From, typename To>
struct CopyRow {
  const From* from;
  std::size_t from_stride;
  To* to;
  std::size_t to_stride;
  std::size_t columns;

  TUTTI_ANY_PROCESSOR void operator()(std::size_t row) const {
    for (std::size_t i = 0; i < columns; ++i) assign(to[row * to_stride + i], to_float(from[row * from_stride + i]));
  }
};

// Whether `a` (an expert, say) comes before `b` by their logits; equal logits go by number. A NaN is less than any
// number.
TUTTI_ANY_PROCESSOR inline bool comes_before(const float* logits, std::int32_t a, std::int32_t b) {
  const float left = logits[a], right = logits[b];
  const bool left_is_none = left != left, right_is_none = right != right;
  if (left_is_none != right_is_none) return right_is_none;
  if (left_is_none || left == right) return a < b;
  return left > right;
}

template <typename T>
TUTTI_ANY_PROCESSOR inline float row_dot(const T* a, const T* b, std::size_t count) {
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += to_float(a[i]) * to_float(b[i]);
  return sum;
}

// Derived has: template <typename Function> void for_each(std::size_t count, Function function), which calls
// function(0 .. count - 1), perhaps several at a time.
template <typename Derived>
class ElementwiseCompute : public Compute {
 public:
  void scale(const Tensor& tensor, float factor) override {
    float* const data = tensor.floats();
    each(tensor.count(), [=] TUTTI_ANY_PROCESSOR(std::size_t i) { data[i] *= factor; });
  }

  void copy(const Tensor& from, const Tensor& to, bool accumulate) override {
    require_equal("the number of elements to copy", from.count(), "the number of elements to copy to", to.count());
    ByTypes(from, to, [&]<typename From, typename To>(const From* source, To* target) {
      each(from.count(), CopyElement<From, To>{source, target, accumulate});
    });
  }

  void add_bias(const Tensor& y, const Tensor& bias) override {
    const auto to = matrix_of(y);
    const float* const from = bias.floats();
    each(to.rows, [=] TUTTI_ANY_PROCESSOR(std::size_t row) {
      for (std::size_t i = 0; i < to.columns; ++i) to[row][i] += from[i];
    });
  }

  void add_rows(const Tensor& y, const Tensor& sums) override {
    const auto from = matrix_of(y);
    float* const to = sums.floats();
    each(from.columns, [=] TUTTI_ANY_PROCESSOR(std::size_t column) {
      for (std::size_t row = 0; row < from.rows; ++row) to[column] += from[row][column];
    });
  }

  void copy_columns(const Tensor& from, std::size_t from_first, const Tensor& to, std::size_t to_first,
                    std::size_t columns) override {
    ByTypes(from, to, [&]<typename From, typename To>(const From* source, To* target) {
      each(from.rows(),
           CopyRow<From, To>{source + from_first, from.columns(), target + to_first, to.columns(), columns});
    });
  }

  void embed(const Tensor& ids, const Tensor& table, std::int32_t first, const Tensor& output) override {
    const auto* const id = integers_of("ids", ids).data;
    const auto from = matrix_of(table), to = matrix_of(output);
    each(ids.count(), [=] TUTTI_ANY_PROCESSOR(std::size_t i) {
      const auto row = static_cast<std::size_t>(id[i] - first);  // huge for ids before the first
      for (std::size_t c = 0; c < to.columns; ++c) to[i][c] = row < from.rows ? from[row][c] : 0.0F;
    });
  }

  // By columns, since ids may name a row several times.
  void embed_backward(const Tensor& ids, const Tensor& grad_output, std::int32_t first,
                      const Tensor& grad_table) override {
    const auto* const id = integers_of("ids", ids).data;
    const std::size_t count = ids.count();
    const auto from = matrix_of(grad_output), to = matrix_of(grad_table);
    each(to.columns, [=] TUTTI_ANY_PROCESSOR(std::size_t column) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto row = static_cast<std::size_t>(id[i] - first);
        if (row < to.rows) to[row][column] += from[i][column];
      }
    });
  }

  void row_maxima(const Tensor& logits, const Tensor& maxima) override {
    const auto from = matrix_of(logits);
    float* const to = maxima.floats();
    each(from.rows, [=] TUTTI_ANY_PROCESSOR(std::size_t row) { to[row] = Maximum(from[row], from.columns); });
  }

  void exponential_sums(const Tensor& logits, const Tensor& maxima, const Tensor& targets, std::int32_t first,
                        const Tensor& sums, const Tensor& target_logits) override {
    const auto from = matrix_of(logits);
    const auto* const target = integers_of("targets", targets).data;
    const float* const maximum = maxima.floats();
    float *const to_sums = sums.floats(), *const to_logits = target_logits.floats();
    each(from.rows, [=] TUTTI_ANY_PROCESSOR(std::size_t row) {
      float sum = 0;
      for (std::size_t i = 0; i < from.columns; ++i) sum += std::exp(from[row][i] - maximum[row]);
      to_sums[row] = sum;
      const auto column = static_cast<std::size_t>(target[row] - first);
      to_logits[row] = column < from.columns ? from[row][column] - maximum[row] : 0.0F;
    });
  }

  void cross_entropy(const Tensor& sums, const Tensor& target_logits, const Tensor& losses) override {
    const float *const sum = sums.floats(), *const target = target_logits.floats();
    float* const to = losses.floats();
    each(sums.count(), [=] TUTTI_ANY_PROCESSOR(std::size_t i) { to[i] = std::log(sum[i]) - target[i]; });
  }

  void cross_entropy_backward(const Tensor& logits, const Tensor& maxima, const Tensor& sums, const Tensor& targets,
                              std::int32_t first, const Tensor& grad_losses, const Tensor& grad_logits) override {
    const auto from = matrix_of(logits), to = matrix_of(grad_logits);
    const auto* const target = integers_of("targets", targets).data;
    const float *const maximum = maxima.floats(), *const sum = sums.floats(), *const grad = grad_losses.floats();
    each(from.rows, [=] TUTTI_ANY_PROCESSOR(std::size_t row) {
      for (std::size_t i = 0; i < from.columns; ++i) {
        to[row][i] = std::exp(from[row][i] - maximum[row]) / sum[row] * grad[row];
      }
      const auto column = static_cast<std::size_t>(target[row] - first);
      if (column < from.columns) to[row][column] -= grad[row];
    });
  }

  void sum_rows(const Tensor& from, const Tensor& rows, const Tensor& weights, const Tensor& to) override {
    const auto source = matrix_of(from), target = matrix_of(to);
    const auto row_of = integers_of("rows", rows);
    const float* const weight = weights.data == nullptr ? nullptr : weights.floats();
    each(target.rows, [=] TUTTI_ANY_PROCESSOR(std::size_t i) {
      bool first = true;
      for (std::size_t j = 0; j < row_of.columns; ++j) {
        if (row_of[i][j] < 0) continue;
        const float factor = weight == nullptr ? 1.0F : weight[i * row_of.columns + j];
        const float* const values = source[static_cast<std::size_t>(row_of[i][j])];
        if (first) {
          for (std::size_t c = 0; c < target.columns; ++c) target[i][c] = factor * values[c];
        } else {
          for (std::size_t c = 0; c < target.columns; ++c) target[i][c] += factor * values[c];
        }
        first = false;
      }
      for (std::size_t c = 0; first && c < target.columns; ++c) target[i][c] = 0;
    });
  }

  void dot_rows(const Tensor& x, const Tensor& from, const Tensor& rows, const Tensor& dots) override {
    const auto left = matrix_of(x), right = matrix_of(from), to = matrix_of(dots);
    const auto row_of = integers_of("rows", rows);
    each(left.rows, [=] TUTTI_ANY_PROCESSOR(std::size_t i) {
      for (std::size_t j = 0; j < row_of.columns; ++j) {
        const auto row = row_of[i][j];
        to[i][j] = row < 0 ? 0.0F : row_dot(left[i], right[static_cast<std::size_t>(row)], left.columns);
      }
    });
  }

  void topk_softmax(const Tensor& logits, bool renormalize, const Tensor& probabilities, const Tensor& indices,
                    const Tensor& weights) override {
    const auto from = matrix_of(logits), to = matrix_of(probabilities), to_weights = matrix_of(weights);
    auto* const to_indices = static_cast<std::int32_t*>(indices.data);
    const std::size_t k = indices.columns();
    each(from.rows, [=] TUTTI_ANY_PROCESSOR(std::size_t row) {
      const float* const logit = from[row];
      float* const probability = to[row];
      const float maximum = Maximum(logit, from.columns);
      float sum = 0, total = 0;
      for (std::size_t i = 0; i < from.columns; ++i) sum += probability[i] = std::exp(logit[i] - maximum);
      for (std::size_t i = 0; i < from.columns; ++i) probability[i] /= sum;
      // By logits, since two that differ may have equal probabilities. Each choice is the first after the previous one.
      for (std::size_t j = 0; j < k; ++j) {
        std::int32_t best = -1;
        for (std::int32_t i = 0; i < static_cast<std::int32_t>(from.columns); ++i) {
          if (j > 0 && !comes_before(logit, to_indices[row * k + j - 1], i)) continue;
          if (best < 0 || comes_before(logit, i, best)) best = i;
        }
        to_indices[row * k + j] = best;
        total += to_weights[row][j] = probability[best];
      }
      for (std::size_t j = 0; renormalize && j < k; ++j) to_weights[row][j] /= total;
    });
  }

  void topk_softmax_backward(const Tensor& probabilities, const Tensor& indices, bool renormalize,
                             const Tensor& grad_weights, const Tensor& grad_columns,
                             const Tensor& grad_logits) override {
    const auto from = matrix_of(probabilities), grads = matrix_of(grad_weights), to = matrix_of(grad_logits);
    const auto chosen = integers_of("indices", indices);
    const float* const grad_column = grad_columns.floats();
    each(from.rows, [=] TUTTI_ANY_PROCESSOR(std::size_t row) {
      const float* const probability = from[row];
      // weight j = p(j) / total, so its gradient reaches p(i) as (one at i = j, less weight j) / total.
      float total = 1, mean = 0;
      if (renormalize) {
        total = 0;
        for (std::size_t j = 0; j < chosen.columns; ++j) total += probability[chosen[row][j]];
        for (std::size_t j = 0; j < chosen.columns; ++j) {
          mean += grads[row][j] * probability[chosen[row][j]] / total;
        }
      }
      for (std::size_t i = 0; i < from.columns; ++i) to[row][i] = grad_column[i];
      for (std::size_t j = 0; j < chosen.columns; ++j) to[row][chosen[row][j]] += (grads[row][j] - mean) / total;
      const float inner = row_dot(to[row], probability, from.columns);
      for (std::size_t i = 0; i < from.columns; ++i) to[row][i] = probability[i] * (to[row][i] - inner);
    });
  }

 private:
  template <typename Function>
  void each(std::size_t count, Function function) {
    if (count > 0) static_cast<Derived*>(this)->for_each(count, function);
  }
  // Calls call(source, target) with pointers to their types.
  template <typename Call>
  static void ByTypes(const Tensor& from, const Tensor& to, const Call& call) {
    const auto to_any = [&](const auto* source) {
      if (to.dtype == tuttiBfloat16) return call(source, static_cast<BFloat16*>(to.data));
      require_type("what is copied to", to, tuttiFloat32);
      call(source, to.floats());
    };
    if (from.dtype == tuttiBfloat16) return to_any(static_cast<const BFloat16*>(from.data));
    require_type("what is copied", from, tuttiFloat32);
    to_any(static_cast<const float*>(from.data));
  }
  static TUTTI_ANY_PROCESSOR float Maximum(const float* values, std::size_t count) {
    float maximum = values[0];
    for (std::size_t i = 1; i < count; ++i) maximum = values[i] > maximum ? values[i] : maximum;
    return maximum;
  }
};

}  // namespace tutti::parallel
