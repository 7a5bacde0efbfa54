#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <vector>

#include "tutti/parallel/compute.h"
#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

// Of what tuttiMemAlloc gives on the host, so that both are alike to SIMD.
constexpr std::size_t kAlignment = 64;

float* Row(const Tensor& matrix, std::size_t row) { return matrix.floats() + row * matrix.columns(); }

const std::int32_t* Integers(const char* what, const Tensor& tensor) {
  require_type(what, tensor, tuttiInt32);
  return static_cast<const std::int32_t*>(tensor.data);
}

bool IsIn(std::int32_t id, std::int32_t first, std::size_t count) {
  return id >= first && static_cast<std::size_t>(id - first) < count;
}

// For who brings none: right, and slow.
void PlainMatmul(Transposed a_transposed, Transposed b_transposed, std::size_t m, std::size_t n, std::size_t k,
                 const float* a, const float* b, float* c, bool accumulate) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::size_t l = 0; l < k; ++l) {
        const float left = a_transposed == Transposed::yes ? a[l * m + i] : a[i * k + l];
        const float right = b_transposed == Transposed::yes ? b[j * k + l] : b[l * n + j];
        sum += left * right;
      }
      c[i * n + j] = accumulate ? c[i * n + j] + sum : sum;
    }
  }
}

}  // namespace

Buffer::Buffer(Compute& compute, Shape shape, tuttiDataType_t dtype) : tensor_(nullptr, std::move(shape), dtype) {
  memory_ = {compute.allocate(tensor_.bytes()), [&compute](void* memory) { compute.release(memory); }};
  tensor_.data = memory_.get();
}

Buffer uploaded(Compute& compute, const std::vector<std::int32_t>& numbers, std::size_t columns) {
  Buffer buffer(compute, {numbers.size() / columns, columns}, tuttiInt32);
  compute.upload(numbers.data(), buffer);
  return buffer;
}

HostCompute::HostCompute() : HostCompute(PlainMatmul) {}

HostCompute::~HostCompute() {
  if (communication_stream_ != nullptr) tuttiStreamDestroy(communication_stream_);
}

void* HostCompute::allocate(std::size_t bytes) {
  return ::operator new (std::max(bytes, kAlignment), std::align_val_t{kAlignment});
}

void HostCompute::release(void* memory) noexcept { ::operator delete (memory, std::align_val_t{kAlignment}); }

tuttiStream_t HostCompute::communication_stream() {
  if (communication_stream_ == nullptr) check(tuttiStreamCreate(&communication_stream_));
  return communication_stream_;
}

void HostCompute::join_communication() {
  if (communication_stream_ != nullptr) check(tuttiStreamSynchronize(communication_stream_));
}

void HostCompute::zero(const Tensor& tensor) { std::memset(tensor.data, 0, tensor.bytes()); }

void HostCompute::scale(const Tensor& tensor, float factor) {
  std::for_each_n(tensor.floats(), tensor.count(), [factor](float& value) { value *= factor; });
}

void HostCompute::matmul(Transposed transpose_a, const Tensor& a, Transposed transpose_b, const Tensor& b,
                         const Tensor& c, bool accumulate) {
  const std::size_t k = transpose_a == Transposed::yes ? a.rows() : a.columns();
  matmul_(transpose_a, transpose_b, c.rows(), c.columns(), k, a.floats(), b.floats(), c.floats(), accumulate);
}

void HostCompute::add_bias(const Tensor& y, const Tensor& bias) {
  for (std::size_t row = 0; row < y.rows(); ++row) {
    std::transform(Row(y, row), Row(y, row + 1), bias.floats(), Row(y, row), std::plus<>());
  }
}

void HostCompute::add_rows(const Tensor& y, const Tensor& sums) {
  for (std::size_t row = 0; row < y.rows(); ++row) {
    std::transform(Row(y, row), Row(y, row + 1), sums.floats(), sums.floats(), std::plus<>());
  }
}

void HostCompute::copy_columns(const Tensor& from, std::size_t from_first, const Tensor& to, std::size_t to_first,
                               std::size_t columns) {
  for (std::size_t row = 0; row < from.rows(); ++row) {
    std::copy_n(Row(from, row) + from_first, columns, Row(to, row) + to_first);
  }
}

void HostCompute::embed(const Tensor& ids, const Tensor& table, std::int32_t first, const Tensor& output) {
  const auto* const id = Integers("ids", ids);
  for (std::size_t i = 0; i < ids.count(); ++i) {
    auto* const row = Row(output, i);
    if (IsIn(id[i], first, table.rows())) {
      std::copy_n(Row(table, static_cast<std::size_t>(id[i] - first)), table.columns(), row);
    } else {
      std::fill_n(row, table.columns(), 0.0F);
    }
  }
}

void HostCompute::embed_backward(const Tensor& ids, const Tensor& grad_output, std::int32_t first,
                                 const Tensor& grad_table) {
  const auto* const id = Integers("ids", ids);
  for (std::size_t i = 0; i < ids.count(); ++i) {
    if (!IsIn(id[i], first, grad_table.rows())) continue;
    auto* const row = Row(grad_table, static_cast<std::size_t>(id[i] - first));
    std::transform(Row(grad_output, i), Row(grad_output, i + 1), row, row, std::plus<>());
  }
}

void HostCompute::row_maxima(const Tensor& logits, const Tensor& maxima) {
  for (std::size_t row = 0; row < logits.rows(); ++row) {
    maxima.floats()[row] = *std::max_element(Row(logits, row), Row(logits, row + 1));
  }
}

void HostCompute::exponential_sums(const Tensor& logits, const Tensor& maxima, const Tensor& targets,
                                   std::int32_t first, const Tensor& sums, const Tensor& target_logits) {
  const auto* const target = Integers("targets", targets);
  for (std::size_t row = 0; row < logits.rows(); ++row) {
    const float* const logit = Row(logits, row);
    const float maximum = maxima.floats()[row];
    float sum = 0;
    for (std::size_t column = 0; column < logits.columns(); ++column) sum += std::exp(logit[column] - maximum);
    sums.floats()[row] = sum;
    const bool here = IsIn(target[row], first, logits.columns());
    target_logits.floats()[row] = here ? logit[target[row] - first] - maximum : 0.0F;
  }
}

void HostCompute::cross_entropy(const Tensor& sums, const Tensor& target_logits, const Tensor& losses) {
  std::transform(sums.floats(), sums.floats() + sums.count(), target_logits.floats(), losses.floats(),
                 [](float sum, float target) { return std::log(sum) - target; });
}

void HostCompute::cross_entropy_backward(const Tensor& logits, const Tensor& maxima, const Tensor& sums,
                                         const Tensor& targets, std::int32_t first, const Tensor& grad_losses,
                                         const Tensor& grad_logits) {
  const auto* const target = Integers("targets", targets);
  for (std::size_t row = 0; row < logits.rows(); ++row) {
    const float maximum = maxima.floats()[row], grad = grad_losses.floats()[row], sum = sums.floats()[row];
    auto* const out = Row(grad_logits, row);
    std::transform(Row(logits, row), Row(logits, row + 1), out,
                   [&](float logit) { return std::exp(logit - maximum) / sum * grad; });
    if (IsIn(target[row], first, logits.columns())) out[target[row] - first] -= grad;
  }
}

void HostCompute::upload(const void* from, const Tensor& to) {
  if (to.count() > 0) std::memcpy(to.data, from, to.bytes());
}

void HostCompute::download(const Tensor& from, void* to) {
  if (from.count() > 0) std::memcpy(to, from.data, from.bytes());
}

void HostCompute::sum_rows(const Tensor& from, const Tensor& rows, const Tensor& weights, const Tensor& to) {
  const auto* const row_of = Integers("rows", rows);
  for (std::size_t i = 0; i < to.rows(); ++i) {
    bool first = true;
    for (std::size_t at = i * rows.columns(); at < (i + 1) * rows.columns(); ++at) {
      if (row_of[at] < 0) continue;
      const float weight = weights.data == nullptr ? 1.0F : weights.floats()[at];
      const auto row = static_cast<std::size_t>(row_of[at]);
      std::transform(Row(from, row), Row(from, row + 1), Row(to, i), Row(to, i),
                     [=](float value, float sum) { return first ? weight * value : sum + weight * value; });
      first = false;
    }
    if (first) std::fill_n(Row(to, i), to.columns(), 0.0F);
  }
}

void HostCompute::dot_rows(const Tensor& x, const Tensor& from, const Tensor& rows, const Tensor& dots) {
  const auto* const row_of = Integers("rows", rows);
  for (std::size_t i = 0; i < x.rows(); ++i) {
    for (std::size_t at = i * rows.columns(); at < (i + 1) * rows.columns(); ++at) {
      const bool none = row_of[at] < 0;
      dots.floats()[at] =
          none ? 0.0F
               : std::inner_product(Row(x, i), Row(x, i + 1), Row(from, static_cast<std::size_t>(row_of[at])), 0.0F);
    }
  }
}

void HostCompute::topk_softmax(const Tensor& logits, bool renormalize, const Tensor& probabilities,
                               const Tensor& indices, const Tensor& weights) {
  const std::size_t k = indices.columns();
  std::vector<std::int32_t> order(logits.columns());
  for (std::size_t row = 0; row < logits.rows(); ++row) {
    const float* const logit = Row(logits, row);
    float* const probability = Row(probabilities, row);
    const float maximum = *std::max_element(logit, logit + logits.columns());
    std::transform(logit, logit + logits.columns(), probability, [=](float each) { return std::exp(each - maximum); });
    const float sum = std::accumulate(probability, probability + logits.columns(), 0.0F);
    std::for_each_n(probability, logits.columns(), [=](float& each) { each /= sum; });

    std::iota(order.begin(), order.end(), 0);
    // By logits: two that differ may have equal probabilities. Not a number is less than any number.
    const auto before = [=](std::int32_t a, std::int32_t b) {
      if (std::isnan(logit[a]) || std::isnan(logit[b])) {
        return std::isnan(logit[a]) == std::isnan(logit[b]) ? a < b : std::isnan(logit[b]);
      }
      return logit[a] != logit[b] ? logit[a] > logit[b] : a < b;
    };
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(), before);
    std::copy_n(order.begin(), k, static_cast<std::int32_t*>(indices.data) + row * k);
    float total = 0;
    for (std::size_t j = 0; j < k; ++j) total += Row(weights, row)[j] = probability[order[j]];
    if (renormalize) std::for_each_n(Row(weights, row), k, [=](float& each) { each /= total; });
  }
}

void HostCompute::topk_softmax_backward(const Tensor& probabilities, const Tensor& indices, bool renormalize,
                                        const Tensor& grad_weights, const Tensor& grad_columns,
                                        const Tensor& grad_logits) {
  const auto* const index = Integers("indices", indices);
  const std::size_t k = indices.columns(), columns = probabilities.columns();
  std::vector<float> grad(columns);
  for (std::size_t row = 0; row < probabilities.rows(); ++row) {
    const float* const probability = Row(probabilities, row);
    const float* const grad_weight = Row(grad_weights, row);
    std::copy_n(grad_columns.floats(), columns, grad.begin());
    // weight j = p(j) / total, so its gradient reaches p(i) as (one at i = j, less weight j) / total.
    float total = 1, mean = 0;
    if (renormalize) {
      total = 0;
      for (std::size_t j = 0; j < k; ++j) total += probability[index[row * k + j]];
      for (std::size_t j = 0; j < k; ++j) mean += grad_weight[j] * probability[index[row * k + j]] / total;
    }
    for (std::size_t j = 0; j < k; ++j) {
      grad[static_cast<std::size_t>(index[row * k + j])] += (grad_weight[j] - mean) / total;
    }
    const float inner = std::inner_product(grad.begin(), grad.end(), probability, 0.0F);
    std::transform(grad.begin(), grad.end(), probability, Row(grad_logits, row),
                   [=](float each, float p) { return p * (each - inner); });
  }
}

}  // namespace tutti::parallel
