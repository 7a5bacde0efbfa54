// Shared by the tests of attention: the same attention written once more in doubles, whole and in the plain way.
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

// The same in memory of a type: Values after rounding.
class Typed {
 public:
  Typed(const Values& from, tuttiDataType_t dtype)
      : shape_(from.shape), dtype_(dtype), memory_(from.values.size() * size_of(dtype)) {
    Values values = from;
    HostCompute().copy(values, *this, false);
  }
  operator Tensor() { return {memory_.data(), shape_, dtype_}; }  // NOLINT: stands for the tensor in every call
  Values values() {
    Values wide(shape_);
    HostCompute().copy(*this, wide, false);
    return wide;
  }

 private:
  Shape shape_;
  tuttiDataType_t dtype_;
  std::vector<std::byte> memory_;
};

// Attention of qkv [sequence, batch, kv_heads, heads / kv_heads + 2, width], and its gradient for grad_out [sequence,
// batch, heads, width]. A sample sees nothing of others.
struct PlainAttention {
  PlainAttention(const Values& qkv, const Values& grad_out, const AttentionMask& mask,
                 const std::vector<std::size_t>& cu_seqlens = {})
      : out(grad_out.values.size()), grad_qkv(qkv.values.size()) {
    const std::size_t sequence = qkv.shape[0], lanes = grad_out.shape[1] * grad_out.shape[2], width = qkv.shape[4];
    const std::size_t parts = qkv.shape[3], group = parts - 2;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const auto at = [&](std::size_t position, std::size_t part) {
        return ((position * lanes / group + lane / group) * parts + part) * width;
      };
      const std::size_t query = lane % group, key = group, value = group + 1;
      for (std::size_t i = 0; i < sequence; ++i) {
        const std::size_t row = (i * lanes + lane) * width;
        const auto sees = [&](std::size_t j) {
          return std::ranges::upper_bound(cu_seqlens, i) == std::ranges::upper_bound(cu_seqlens, j) &&
                 (!mask.causal || (j <= i && (mask.window == 0 || i - j < mask.window)));
        };
        std::vector<double> p(sequence), grad_p(sequence);
        double maximum = -std::numeric_limits<double>::infinity(), sum = 0, mean = 0;
        for (std::size_t j = 0; j < sequence; ++j) {
          for (std::size_t c = 0; c < width; ++c) {
            p[j] += double{qkv.values[at(i, query) + c]} * qkv.values[at(j, key) + c];
          }
          p[j] /= std::sqrt(static_cast<double>(width));
          if (sees(j)) maximum = std::max(maximum, p[j]);
        }
        for (std::size_t j = 0; j < sequence; ++j) sum += p[j] = sees(j) ? std::exp(p[j] - maximum) : 0;
        for (std::size_t j = 0; j < sequence; ++j) {
          p[j] /= sum;
          for (std::size_t c = 0; c < width; ++c) {
            out[row + c] += p[j] * qkv.values[at(j, value) + c];
            grad_p[j] += double{grad_out.values[row + c]} * qkv.values[at(j, value) + c];
            grad_qkv[at(j, value) + c] += p[j] * grad_out.values[row + c];
          }
          mean += p[j] * grad_p[j];
        }
        for (std::size_t j = 0; j < sequence; ++j) {
          const double grad = p[j] * (grad_p[j] - mean) / std::sqrt(static_cast<double>(width));
          for (std::size_t c = 0; c < width; ++c) {
            grad_qkv[at(i, query) + c] += grad * qkv.values[at(j, key) + c];
            grad_qkv[at(j, key) + c] += grad * qkv.values[at(i, query) + c];
          }
        }
      }
    }
  }
  std::vector<double> out, grad_qkv;
};

inline std::vector<double> RowsOf(const std::vector<double>& values, std::size_t sequence,
                                  const std::vector<std::size_t>& which) {
  const std::size_t size = values.size() / sequence;
  std::vector<double> some;
  for (const auto row : which) {
    for (std::size_t i = 0; i < size; ++i) some.push_back(values[row * size + i]);
  }
  return some;
}

// One unit in the last place of 1.
inline double LastPlaceOf(tuttiDataType_t dtype) {
  constexpr double kBFloat16 = 1.0 / 128;  // 7 bits behind the point
  return dtype == tuttiBfloat16 ? kBFloat16 : double{std::numeric_limits<float>::epsilon()};
}

// The largest difference, in units of the last place of the largest value.
inline double UlpsApart(const std::vector<float>& got, const std::vector<double>& wanted,
                        tuttiDataType_t dtype = tuttiFloat32) {
  EXPECT_EQ(got.size(), wanted.size());
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!(std::abs(got[i] - wanted[i]) <= difference)) difference = std::abs(got[i] - wanted[i]);
    largest = std::max(largest, std::abs(wanted[i]));
  }
  return difference / largest / LastPlaceOf(dtype);
}

}  // namespace tutti::parallel
