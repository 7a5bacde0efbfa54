#include "src/device/pinned_works.h"

#include <algorithm>
#include <cstring>

namespace tutti::device {
namespace {

// Launches of a group differ in length: rounded up to this, old blocks fit new launches.
constexpr std::size_t kBlockUnit = std::size_t{16} << 10;

}  // namespace

PinnedWorks::Block& PinnedWorks::Free(std::size_t bytes) {
  for (auto& block : blocks_) {
    if (!block.kept && block.memory.bytes() >= bytes && block.done.Passed()) return block;
  }
  const auto& driver = device_.driver();
  const std::size_t rounded = (bytes + kBlockUnit - 1) / kBlockUnit * kBlockUnit;
  blocks_.push_back(
      {cuda_transport::CudaMemory::Pinned(driver, device_.context(), rounded), {driver, device_.context()}});
  return blocks_.back();
}

cuda_kernels::DeviceLaunch PinnedWorks::Write(const std::vector<cuda_kernels::DeviceWorkQueue>& queues,
                                              const std::vector<cuda_kernels::DeviceWork>& works) {
  cuda_kernels::DeviceLaunch launch{};
  launch.queue_count = static_cast<std::uint32_t>(queues.size());
  written_ = nullptr;
  if (queues.size() <= cuda_kernels::kInlineQueues && works.size() <= cuda_kernels::kInlineWorks) {
    std::copy(queues.begin(), queues.end(), launch.queues);
    std::copy(works.begin(), works.end(), launch.works);
    return launch;
  }
  const std::size_t queue_bytes = queues.size() * sizeof(cuda_kernels::DeviceWorkQueue);
  const std::size_t work_bytes = works.size() * sizeof(cuda_kernels::DeviceWork);
  Block& block = Free(queue_bytes + work_bytes);
  std::memcpy(block.memory.data(), queues.data(), queue_bytes);
  std::memcpy(block.memory.data() + queue_bytes, works.data(), work_bytes);
  launch.more_queues = reinterpret_cast<const cuda_kernels::DeviceWorkQueue*>(block.memory.data());
  launch.more_works = reinterpret_cast<const cuda_kernels::DeviceWork*>(block.memory.data() + queue_bytes);
  written_ = &block;
  return launch;
}

void PinnedWorks::Enqueued(cuda_transport::CuStream stream, bool captured) {
  if (written_ == nullptr) return;
  if (captured) {
    written_->kept = true;
  } else {
    const cuda_transport::CurrentDevice current(device_.driver(), device_.context());
    written_->done.Record(stream);
  }
  written_ = nullptr;
}

}  // namespace tutti::device
