#include "src/device/pinned_works.h"

#include <algorithm>
#include <cstring>

namespace tutti::device {
namespace {

// The least that is more than a kernel's parameter, with room for groups of different lengths.
constexpr std::size_t kUnitBytes = std::size_t{16} << 10;

}  // namespace

PinnedWorks::PinnedWorks(const cuda_transport::CudaDevice& device) : device_(device) { AddPiece(kAhead); }

void PinnedWorks::AddPiece(std::size_t bytes) {
  const auto& driver = device_.driver();
  pieces_.push_back(cuda_transport::CudaMemory::Pinned(driver, device_.context(), bytes));
  for (std::size_t at = 0; at < bytes; at += kUnitBytes) {
    units_.push_back({pieces_.back().data() + at, units_.size(), {driver, device_.context()}});
  }
}

bool PinnedWorks::IsFree(std::size_t first, std::size_t count) const {
  if (first + count > units_.size()) return false;
  for (std::size_t i = first; i < first + count; ++i) {
    const Unit& run = units_[units_[i].first];
    const bool adjoins = units_[i].begin == units_[first].begin + (i - first) * kUnitBytes;
    if (!adjoins || run.kept || !run.done.Passed()) return false;
  }
  return true;
}

std::size_t PinnedWorks::Take(std::size_t bytes) {
  const std::size_t count = (bytes + kUnitBytes - 1) / kUnitBytes;
  std::optional<std::size_t> found;
  for (std::size_t tried = 0; tried < units_.size() && !found; ++tried) {
    const std::size_t first = (next_ + tried) % units_.size();
    if (IsFree(first, count)) found = first;
  }
  if (!found) {
    found = units_.size();
    AddPiece(std::max(kAhead, count * kUnitBytes));
  }
  for (std::size_t i = *found; i < *found + count; ++i) units_[i].first = *found;
  next_ = (*found + count) % units_.size();
  return *found;
}

cuda_kernels::DeviceLaunch PinnedWorks::Write(const std::vector<cuda_kernels::DeviceWorkQueue>& queues,
                                              const std::vector<cuda_kernels::DeviceWork>& works,
                                              std::uint32_t collectives) {
  cuda_kernels::DeviceLaunch launch{};
  launch.queue_count = static_cast<std::uint32_t>(queues.size());
  launch.collectives = collectives;
  const std::uint32_t blocks = queues.front().blocks;
  const bool alike = std::all_of(queues.begin(), queues.end(),
                                 [&](const cuda_kernels::DeviceWorkQueue& queue) { return queue.blocks == blocks; });
  launch.blocks_each = alike ? blocks : 0;
  written_.reset();
  if (queues.size() <= cuda_kernels::kInlineQueues && works.size() <= cuda_kernels::kInlineWorks) {
    std::copy(queues.begin(), queues.end(), launch.queues);
    std::copy(works.begin(), works.end(), launch.works);
    return launch;
  }
  const std::size_t queue_bytes = queues.size() * sizeof(cuda_kernels::DeviceWorkQueue);
  const std::size_t work_bytes = works.size() * sizeof(cuda_kernels::DeviceWork);
  written_ = Take(queue_bytes + work_bytes);
  std::byte* const memory = units_[*written_].begin;
  std::memcpy(memory, queues.data(), queue_bytes);
  std::memcpy(memory + queue_bytes, works.data(), work_bytes);
  launch.more_queues = reinterpret_cast<const cuda_kernels::DeviceWorkQueue*>(memory);
  launch.more_works = reinterpret_cast<const cuda_kernels::DeviceWork*>(memory + queue_bytes);
  return launch;
}

void PinnedWorks::Enqueued(cuda_transport::CuStream stream, bool captured) {
  if (!written_) return;
  Unit& run = units_[*written_];
  if (captured) {
    run.kept = true;
  } else {
    const cuda_transport::CurrentDevice current(device_.driver(), device_.context());
    run.done.Record(stream);
  }
  written_.reset();
}

}  // namespace tutti::device
