// Users' memory that a communicator knows: registered buffers and windows, each on the side that it belongs to.
#include <algorithm>

#include "base/all_gather.h"
#include "src/communicator/communicator.h"
#include "src/communicator/control_call.h"
#include "src/memory/device_buffers.h"

namespace tutti::comm {
namespace {

[[noreturn]] void ThrowNotRegistered(const tuttiWindow* window) {
  Throw(tuttiInvalidArgument, "win {} is not registered on this communicator", static_cast<const void*>(window));
}

}  // namespace

bool Communicator::IsOnDevice(const void* memory) const {
  return device_ != nullptr && memory::IsGpuMemory(device_->device(), memory);
}

void Communicator::RegisterBuffer(std::byte* begin, std::size_t bytes) {
  if (device_ != nullptr) device_->registered().Add(begin, bytes);
  auto* const network = host_->network();
  const bool with_network = network != nullptr && !IsOnDevice(begin);
  if (with_network) network->Register(begin, bytes);
  registered_.emplace(begin, with_network ? bytes : 0);
}

void Communicator::DeregisterBuffer(std::byte* handle) {
  const auto found = registered_.find(handle);
  if (found == registered_.end()) {
    Throw(tuttiInvalidUsage, "handle {} is not one of tuttiCommRegister on this comm, or has been deregistered",
          static_cast<const void*>(handle));
  }
  if (device_ != nullptr) device_->registered().Remove(handle);
  if (found->second != 0) host_->network()->Deregister(found->first, found->second);
  registered_.erase(found);
}

tuttiWindow* Communicator::RegisterWindow(void* buffer, std::size_t bytes, bool symmetric) {
  return InControlCall(ControlCall::window_register, [&] {
    RequireSameCalls(ControlCall::window_register, MakeAllGather());
    const auto flags = GatherValues(MakeAllGather(), static_cast<std::uint8_t>(symmetric));
    if (const auto other = std::ranges::find(flags, !flags.front()); other != flags.end()) {
      Throw(tuttiInvalidArgument, "winFlags are {} on rank 0, and {} on rank {}", flags.front(), *other,
            other - flags.begin());
    }
    const bool mine = IsOnDevice(buffer);
    if (device_ != nullptr) {
      const auto on_gpu = GatherValues(MakeAllGather(), static_cast<std::uint8_t>(mine));
      const auto other = std::find_if(on_gpu.begin(), on_gpu.end(), [&](auto each) { return each != on_gpu.front(); });
      if (other != on_gpu.end()) {
        Throw(tuttiInvalidArgument, "buff is {} memory on rank 0, {} memory on rank {}",
              on_gpu.front() ? "GPU" : "host", *other ? "GPU" : "host", other - on_gpu.begin());
      }
    }
    memory::Windows& windows = mine ? static_cast<memory::Windows&>(device_->windows()) : host_->windows();
    tuttiWindow* const window = windows.Register(buffer, bytes, MakeAllGather(), InitDeadline());
    if (symmetric) windows.MakeSymmetric(window);
    return window;
  });
}

void Communicator::DeregisterWindow(const tuttiWindow* window) {
  const bool on_device = device_ != nullptr && device_->windows().Deregister(window);
  if (!on_device && !host_->windows().Deregister(window)) ThrowNotRegistered(window);
}

std::span<std::byte> Communicator::PartOf(const tuttiWindow* window, int peer) const {
  auto part = device_ != nullptr ? device_->windows().PartOf(window, peer) : std::nullopt;
  if (!part) part = host_->windows().PartOf(window, peer);
  if (!part) ThrowNotRegistered(window);
  return *part;
}

}  // namespace tutti::comm
