#include "tutti/parallel/flat_parameter.h"

#include <algorithm>
#include <utility>

namespace tutti::parallel {
namespace {

// The elements of a tensor of `shape`, from `first` on.
Tensor Part(const Tensor& flat, std::size_t first, Shape shape) {
  Tensor part(nullptr, std::move(shape), flat.dtype);
  if (flat.data != nullptr) part.data = static_cast<std::byte*>(flat.data) + first * size_of(flat.dtype);
  return part;
}

}  // namespace

FlatParameter::FlatParameter(std::vector<Shape> shapes, std::size_t ranks) : shapes_(std::move(shapes)) {
  for (const auto& shape : shapes_) {
    firsts_.push_back(count_);
    count_ += Tensor(nullptr, shape, tuttiFloat32).count();
  }
  const std::size_t most = (count_ + ranks - 1) / ranks;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    shard_counts_.push_back(std::min((rank + 1) * most, count_) - std::min(rank * most, count_));
  }
}

Tensor FlatParameter::parameter(const Tensor& flat, std::size_t parameter) const {
  return Part(flat, firsts_[parameter], shapes_[parameter]);
}

Tensor FlatParameter::shard(const Tensor& flat, std::size_t rank) const {
  return Part(flat, std::min(rank * shard_counts_.front(), count_), {shard_counts_[rank]});
}

}  // namespace tutti::parallel
