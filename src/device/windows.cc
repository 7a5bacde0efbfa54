#include "src/device/windows.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "transports/shm/gather_values.h"

namespace tutti::device {
namespace {

// A rank's part of a window, as offered to the others.
struct Offer {
  cuda_transport::ShareableBuffer buffer;
  std::uint64_t address;  // for ranks of the same process
  std::uint64_t bytes;
  bool valid;
  memory::WindowNumbers::Taken taken;
};

Offer MakeOffer(const cuda_transport::CudaDevice& device, const void* buffer, std::size_t bytes,
                const memory::WindowNumbers& numbers) {
  const auto shareable = cuda_transport::ShareableBufferOf(device, buffer, bytes);
  return {shareable.value_or(cuda_transport::ShareableBuffer{}), reinterpret_cast<std::uint64_t>(buffer), bytes,
          shareable.has_value(), numbers.taken()};
}

}  // namespace

DeviceWindows::DeviceWindows(const cuda_transport::CudaDevice& device, const shm::Fabric& shm)
    : device_(device),
      shm_(shm),
      table_(cuda_transport::CudaMemory::OnDevice(
          device.driver(), device.context(),
          cuda_kernels::kDeviceWindows * static_cast<std::size_t>(shm.nranks()) * sizeof(cuda_kernels::DeviceWindow))),
      numbers_(shm) {
  cuda_transport::SideStream(device.driver(), device.context()).Zero(table_.data(), table_.bytes());
}

tuttiWindow* DeviceWindows::Register(void* buffer, std::size_t bytes, const shm::AllGather& all_gather) {
  CloseRetired();
  const auto offers = shm::GatherValues(all_gather, MakeOffer(device_, buffer, bytes, numbers_));
  std::vector<int> without;
  std::vector<memory::WindowNumbers::Taken> taken;
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (!offers[r].valid) without.push_back(static_cast<int>(r));
    taken.push_back(offers[r].taken);
  }
  if (!without.empty()) {
    Throw(
        tuttiInvalidArgument,
        "buff is not inside one allocation of cudaMalloc or tuttiMemAlloc that other processes can open, on rank{} {}",
        without.size() > 1 ? "s" : "", fmt::join(without, ", "));
  }
  const std::uint16_t number = memory::WindowNumbers::Free(taken, kMostWindows);
  Window window;
  window.handle = std::make_unique<tuttiWindow>(tuttiWindow{number});
  window.begin = static_cast<const std::byte*>(buffer);
  window.bytes = bytes;
  std::vector<cuda_kernels::DeviceWindow> parts;  // by rank
  for (int r = 0; r < shm_.nranks(); ++r) {
    const Offer& offer = offers[static_cast<std::size_t>(r)];
    if (!shm_.is_local(r)) {
      parts.push_back({});
      continue;
    }
    if (r == shm_.rank() || shm_.same_process(r)) {
      parts.push_back({reinterpret_cast<const std::byte*>(offer.address), offer.bytes});
      continue;
    }
    window.opened.emplace_back(device_, offer.buffer.handle);
    parts.push_back({window.opened.back().Part(offer.buffer.offset, offer.bytes), offer.bytes});
  }
  // The kernels' table says that the others only read.
  for (const auto& part : parts) window.parts.emplace_back(const_cast<std::byte*>(part.begin), part.bytes);
  if (windows_.size() > number && !windows_[number].parts.empty()) --retired_;
  cuda_transport::SideStream(device_.driver(), device_.context())
      .Copy(Row(number), parts.data(), parts.size() * sizeof parts.front());
  numbers_.Take(number);
  all_gather({});  // no rank may use the window before every rank has it
  const std::lock_guard lock(mutex_);
  windows_.resize(std::max(windows_.size(), std::size_t{number} + 1));
  windows_[number] = std::move(window);
  return windows_[number].handle.get();
}

bool DeviceWindows::Deregister(const tuttiWindow* handle) {
  {
    const std::lock_guard lock(mutex_);
    if (!memory::Retire(windows_, handle, numbers_)) return false;
  }
  ++retired_;
  CloseRetired();
  return true;
}

void DeviceWindows::CloseRetired() {
  if (retired_ == 0) return;
  const std::lock_guard lock(mutex_);
  memory::ForEachRetired(windows_, numbers_, [&](std::uint16_t number, Window& window) {
    cuda_transport::SideStream(device_.driver(), device_.context())
        .Zero(Row(number), static_cast<std::size_t>(shm_.nranks()) * sizeof(cuda_kernels::DeviceWindow));
    window = Window{};
    --retired_;
  });
}

std::optional<std::span<std::byte>> DeviceWindows::PartOf(const tuttiWindow* window, int peer) const {
  const std::lock_guard lock(mutex_);
  return memory::PartOfWindow(windows_, window, peer);
}

std::optional<host::RemoteAccess> DeviceWindows::Find(const void* pointer, std::size_t bytes) const {
  return memory::FindWindow(windows_, pointer, bytes);
}

}  // namespace tutti::device
