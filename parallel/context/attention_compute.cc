#include "tutti/parallel/attention_compute.h"

namespace tutti::parallel {
namespace {

constexpr std::size_t kMixedParts = 3;  // the dimension of mixed heads that they are

}  // namespace

HeadRows::HeadRows(const Tensor& tensor)
    : data(tensor.data),
      dtype(tensor.dtype),
      positions(tensor.shape.at(0)),
      lanes(tensor.shape.at(1) * tensor.shape.at(2)),
      width(tensor.shape.at(3)),
      stride(width) {}

HeadRows::HeadRows(const Tensor& tensor, std::size_t first, std::size_t count)
    : data(static_cast<std::byte*>(tensor.data) + first * tensor.shape.at(4) * size_of(tensor.dtype)),
      dtype(tensor.dtype),
      positions(tensor.shape.at(0)),
      lanes(tensor.shape.at(1) * tensor.shape.at(2) * count),
      group(count),
      width(tensor.shape.at(4)),
      stride(tensor.shape.at(kMixedParts) * width) {}

HeadRows HeadRows::range(std::size_t first, std::size_t count) const {
  HeadRows some = *this;
  some.data = static_cast<std::byte*>(data) + first * (lanes / group) * stride * size_of(dtype);
  some.positions = count;
  return some;
}

HeadRows queries_of(const Tensor& mixed) { return {mixed, 0, mixed.shape.at(kMixedParts) - 2}; }
HeadRows keys_of(const Tensor& mixed) { return {mixed, mixed.shape.at(kMixedParts) - 2, 1}; }
HeadRows values_of(const Tensor& mixed) { return {mixed, mixed.shape.at(kMixedParts) - 1, 1}; }

}  // namespace tutti::parallel
