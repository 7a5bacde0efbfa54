#include "src/device/windows.h"

#include <fmt/ranges.h>

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
};

Offer MakeOffer(const cuda_transport::CudaDevice& device, const void* buffer, std::size_t bytes) {
  const auto shareable = cuda_transport::ShareableBufferOf(device, buffer, bytes);
  if (!shareable) return {};
  return {*shareable, reinterpret_cast<std::uint64_t>(buffer), bytes, true};
}

}  // namespace

DeviceWindows::DeviceWindows(const cuda_transport::CudaDevice& device, const shm::Fabric& shm)
    : device_(device),
      shm_(shm),
      table_(cuda_transport::CudaMemory::OnDevice(
          device.driver(), device.context(),
          cuda_kernels::kDeviceWindows * static_cast<std::size_t>(shm.nranks()) * sizeof(cuda_kernels::DeviceWindow))) {
  cuda_transport::SideStream(device.driver(), device.context()).Zero(table_.data(), table_.bytes());
}

tuttiWindow* DeviceWindows::Register(void* buffer, std::size_t bytes, const shm::AllGather& all_gather) {
  const auto offers = shm::GatherValues(all_gather, MakeOffer(device_, buffer, bytes));
  std::vector<int> without;
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (!offers[r].valid) without.push_back(static_cast<int>(r));
  }
  if (!without.empty()) {
    Throw(
        tuttiInvalidArgument,
        "buff is not inside one allocation of cudaMalloc or tuttiMemAlloc that other processes can open, on rank{} {}",
        without.size() > 1 ? "s" : "", fmt::join(without, ", "));
  }
  if (windows_.size() >= kMostWindows) {
    Throw(tuttiInvalidUsage, "more than {} windows of GPU memory were registered on this communicator", kMostWindows);
  }
  Window window;
  window.handle = std::make_unique<tuttiWindow>(tuttiWindow{static_cast<std::uint16_t>(windows_.size())});
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
  cuda_transport::SideStream(device_.driver(), device_.context())
      .Copy(Row(windows_.size()), parts.data(), parts.size() * sizeof parts.front());
  all_gather({});  // no rank may use the window before every rank has it
  windows_.push_back(std::move(window));
  return windows_.back().handle.get();
}

bool DeviceWindows::Deregister(const tuttiWindow* handle, const shm::AllGather& all_gather) {
  for (auto& window : windows_) {
    if (window.handle == nullptr || window.handle.get() != handle) continue;
    all_gather({});  // every rank has stopped using it
    cuda_transport::SideStream(device_.driver(), device_.context())
        .Zero(Row(handle->number), static_cast<std::size_t>(shm_.nranks()) * sizeof(cuda_kernels::DeviceWindow));
    window = Window{};
    return true;
  }
  return false;
}

std::optional<host::RemoteAccess> DeviceWindows::Find(const void* pointer, std::size_t bytes) const {
  return memory::FindWindow(windows_, pointer, bytes);
}

}  // namespace tutti::device
