#include "tutti/parallel/memory_account.h"

#include <algorithm>
#include <utility>

namespace tutti::parallel {

void MemoryAccount::Count::Add(std::size_t bytes) {
  now += bytes;
  peak = std::max(peak, now);
}

Buffer MemoryAccount::make(MemoryKind kind, Compute& compute, Shape shape, tuttiDataType_t dtype) {
  Tensor tensor(nullptr, std::move(shape), dtype);
  const std::size_t bytes = tensor.bytes();
  tensor.data = compute.allocate(bytes);
  auto& count = counts_[static_cast<std::size_t>(kind)];
  count.Add(bytes);
  all_.Add(bytes);
  return Buffer(std::move(tensor), [this, &count, &compute, bytes](void* memory) {
    compute.release(memory);
    count.now -= bytes;
    all_.now -= bytes;
  });
}

}  // namespace tutti::parallel
