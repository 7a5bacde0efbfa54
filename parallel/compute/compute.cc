#include "tutti/parallel/compute.h"

namespace tutti::parallel {

Buffer::Buffer(Compute& compute, Shape shape, tuttiDataType_t dtype) : tensor_(nullptr, std::move(shape), dtype) {
  memory_ = {compute.allocate(tensor_.bytes()), [&compute](void* memory) { compute.release(memory); }};
  tensor_.data = memory_.get();
}

Buffer::Buffer(Tensor tensor, std::function<void(void*)> release)
    : memory_(tensor.data, std::move(release)), tensor_(std::move(tensor)) {}

Buffer uploaded(Compute& compute, const std::vector<std::int32_t>& numbers, std::size_t columns) {
  Buffer buffer(compute, {numbers.size() / columns, columns}, tuttiInt32);
  compute.upload(numbers.data(), buffer);
  return buffer;
}

}  // namespace tutti::parallel
