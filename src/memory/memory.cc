#include "src/memory/memory.h"

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/fork_safe_mutex.h"
#include "base/threads/made_once.h"
#include "src/memory/device_buffers.h"
#include "transports/cuda/memory/lent_memory.h"
#include "transports/cuda/resources.h"
#include "transports/shm/segment.h"

namespace tutti::memory {
namespace {

struct Registry {
  ForkSafeMutex mutex;
  std::map<std::uintptr_t, shm::Segment> segments;  // by first address
  std::map<std::uintptr_t, cuda_transport::LentMemory> on_devices;
};

Registry& TheRegistry() {
  static constinit MadeOnce<Registry> registry;
  return registry.Get();
}

// Null if this thread has no device.
void* AllocateOnDevice(std::size_t bytes) {
  if (CurrentCudaDevice() == TUTTI_DEVICE_NONE) return nullptr;
  const auto& driver = *cuda_transport::LoadedCudaDriver();
  cuda_transport::CuContext context = nullptr;
  driver.Check(driver.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  cuda_transport::LentMemory memory(driver, context, bytes);
  cuda_transport::SideStream(driver, context).Zero(memory.data(), bytes);
  void* const data = memory.data();
  auto& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.on_devices.emplace(reinterpret_cast<std::uintptr_t>(data), std::move(memory));
  return data;
}

}  // namespace

void* AllocateShared(std::size_t bytes) {
  if (bytes == 0) Throw(tuttiInvalidArgument, "size is 0");
  // Rounding up to pages must not wrap.
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / 2;
  if (bytes > kMost) Throw(tuttiInvalidArgument, "size is {}, which does not fit in memory (was it negative?)", bytes);
  if (void* const on_device = AllocateOnDevice(bytes)) return on_device;
  auto segment = shm::Segment::Create("tutti-memory", bytes);
  void* const data = segment.data();
  auto& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.segments.emplace(reinterpret_cast<std::uintptr_t>(data), std::move(segment));
  return data;
}

void FreeShared(void* pointer) {
  if (pointer == nullptr) return;
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  // Both are destroyed after the lock is released.
  decltype(Registry::segments)::node_type segment;
  decltype(Registry::on_devices)::node_type on_device;
  {
    auto& registry = TheRegistry();
    const std::lock_guard lock(registry.mutex);
    segment = registry.segments.extract(address);
    on_device = registry.on_devices.extract(address);
  }
  if (segment.empty() && on_device.empty()) {
    Throw(tuttiInvalidArgument, "ptr {} was not allocated by tuttiMemAlloc, or has been freed", pointer);
  }
  if (!on_device.empty()) on_device.mapped().AwaitKernels();  // as cudaFree does
}

bool IsAllocatedOnDevice(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  auto& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  const auto after = registry.on_devices.upper_bound(address);
  if (after == registry.on_devices.begin()) return false;
  const auto& [begin, memory] = *std::prev(after);
  return address - begin < memory.bytes();
}

std::optional<AllocationView> FindAllocation(const void* pointer, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  auto& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  auto found = registry.segments.upper_bound(address);
  if (found == registry.segments.begin()) return std::nullopt;
  --found;
  const std::size_t offset = address - found->first;
  const auto& segment = found->second;
  if (offset > segment.bytes() || bytes > segment.bytes() - offset) return std::nullopt;
  FileDescriptor fd(fcntl(segment.fd().get(), F_DUPFD_CLOEXEC, 0));
  if (!fd) ThrowErrno("no file descriptor for sharing memory of tuttiMemAlloc");
  return AllocationView{segment.mapping(), std::move(fd), offset};
}

}  // namespace tutti::memory
