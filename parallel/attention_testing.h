// What the tests of attention share: the same attention written down once more in doubles, whole and in the plain way.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "parallel/testing.h"
#include "tutti/parallel/elementwise_attention.h"
#include "tutti/parallel/host_compute.h"

namespace tutti::parallel {

// A tensor with its memory.
struct Values {
  Values(Shape shape, std::vector<float> values) : shape(std::move(shape)), values(std::move(values)) {}
  explicit Values(const Shape& shape, float value = 0)
      : Values(shape, std::vector<float>(Tensor(static_cast<float*>(nullptr), shape).count(), value)) {}
  static Values Random(const Shape& shape, unsigned seed) {
    return {shape, RandomFloats(Tensor(static_cast<float*>(nullptr), shape).count(), seed)};
  }
  operator Tensor() { return {values.data(), shape}; }  // NOLINT: stands for the tensor in every call

  // Rows of the first dimension.
  Values Rows(const std::vector<std::size_t>& which) const {
    const std::size_t size = values.size() / shape.front();
    Values some(shape, std::vector<float>());
    some.shape.front() = which.size();
    for (const auto row : which) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * size);
      some.values.insert(some.values.end(), begin, begin + static_cast<std::ptrdiff_t>(size));
    }
    return some;
  }

  Shape shape;
  std::vector<float> values;
};

// Of qkv [sequence, batch, heads, 3, width], and its gradient of grad_out [sequence, batch, heads, width].
struct PlainAttention {
  PlainAttention(const Values& qkv, const Values& grad_out, bool causal)
      : out(grad_out.values.size()), grad_qkv(qkv.values.size()) {
    const std::size_t sequence = qkv.shape[0], lanes = qkv.shape[1] * qkv.shape[2], width = qkv.shape[4];
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const auto at = [&](std::size_t position, std::size_t part) {
        return ((position * lanes + lane) * 3 + part) * width;
      };
      for (std::size_t i = 0; i < sequence; ++i) {
        const std::size_t row = (i * lanes + lane) * width, seen = causal ? i + 1 : sequence;
        std::vector<double> p(seen), grad_p(seen);
        double maximum = -std::numeric_limits<double>::infinity(), sum = 0, mean = 0;
        for (std::size_t j = 0; j < seen; ++j) {
          for (std::size_t c = 0; c < width; ++c) p[j] += double{qkv.values[at(i, 0) + c]} * qkv.values[at(j, 1) + c];
          p[j] /= std::sqrt(static_cast<double>(width));
          maximum = std::max(maximum, p[j]);
        }
        for (auto& each : p) sum += each = std::exp(each - maximum);
        for (std::size_t j = 0; j < seen; ++j) {
          p[j] /= sum;
          for (std::size_t c = 0; c < width; ++c) {
            out[row + c] += p[j] * qkv.values[at(j, 2) + c];
            grad_p[j] += double{grad_out.values[row + c]} * qkv.values[at(j, 2) + c];
            grad_qkv[at(j, 2) + c] += p[j] * grad_out.values[row + c];
          }
          mean += p[j] * grad_p[j];
        }
        for (std::size_t j = 0; j < seen; ++j) {
          const double grad = p[j] * (grad_p[j] - mean) / std::sqrt(static_cast<double>(width));
          for (std::size_t c = 0; c < width; ++c) {
            grad_qkv[at(i, 0) + c] += grad * qkv.values[at(j, 1) + c];
            grad_qkv[at(j, 1) + c] += grad * qkv.values[at(i, 0) + c];
          }
        }
      }
    }
  }
  std::vector<double> out, grad_qkv;
};

// The largest difference, in units of the last place of the largest value.
inline double UlpsApart(const std::vector<float>& got, const std::vector<double>& wanted) {
  EXPECT_EQ(got.size(), wanted.size());
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!(std::abs(got[i] - wanted[i]) <= difference)) difference = std::abs(got[i] - wanted[i]);
    largest = std::max(largest, std::abs(wanted[i]));
  }
  return difference / largest / double{std::numeric_limits<float>::epsilon()};
}

}  // namespace tutti::parallel
