#include "transports/cuda/arena.h"

#include <algorithm>

#include "base/numbers/rounding.h"

namespace tutti::cuda_transport {
namespace {

// A plan takes a few KiB; a job has a few dozen plans.
constexpr std::size_t kPiece = std::size_t{2} << 20;
constexpr std::size_t kArenaAlignment = 256;

}  // namespace

DeviceArena::DeviceArena(const CudaDevice& device) : device_(device), side_(device.driver(), device.context()) {
  pieces_.push_back(CudaMemory::OnDevice(device.driver(), device.context(), kPiece));
  Count();
}

void DeviceArena::Count() {
  std::size_t bytes = 0;
  for (const auto& piece : pieces_) bytes += piece.bytes();
  bytes_.store(bytes, std::memory_order_relaxed);
}

std::byte* DeviceArena::Allocate(std::size_t bytes) {
  const std::size_t rounded = RoundUp(bytes, kArenaAlignment);
  if (rounded > pieces_.back().bytes() - used_) {
    const std::size_t piece = std::max(rounded, kPiece);
    const bool pools = device_.Attribute(kCuMemoryPools) != 0;
    pieces_.push_back(pools ? CudaMemory::OnDevice(device_.driver(), device_.context(), piece, side_.stream())
                            : CudaMemory::OnDevice(device_.driver(), device_.context(), piece));
    used_ = 0;
    Count();
  }
  std::byte* const place = pieces_.back().data() + used_;
  used_ += rounded;
  return place;
}

void DeviceArena::Reset() {
  // Keeps the largest piece; if that is too small, the next allocation adds one.
  const auto largest = std::max_element(pieces_.begin(), pieces_.end(),
                                        [](const auto& a, const auto& b) { return a.bytes() < b.bytes(); });
  std::swap(pieces_.front(), *largest);
  pieces_.resize(1);
  Count();
  used_ = 0;
}

}  // namespace tutti::cuda_transport
