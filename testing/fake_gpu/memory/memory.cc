#include "testing/fake_gpu/memory/memory.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "testing/fake_gpu/call.h"
#include "testing/fake_gpu/devices.h"
#include "testing/fake_gpu/environment.h"
#include "testing/fake_gpu/processor/processors.h"
#include "testing/fake_gpu/stream/capture.h"
#include "testing/fake_gpu/stream/stream.h"

namespace tutti::fake_gpu {
namespace {

// Fresh memory of a real device is not zero. Code that relies on zeros should fail here; large buffers are not filled.
constexpr std::size_t kSoiledBytes = 64 << 10;
constexpr int kSoil = 0xa5;

// Who may use new memory: host memory and managed memory, every device; memory of a pool, its own device; other memory of
// a device, also the devices with access to their peer.
void SetFirstAccess(const Range& range) {
  if (range.kind != Kind::kDevice) return range.mapping->AllowAll();
  range.mapping->SetAccess(range.device, true);
  if (range.pooled) return;
  for (const CUdevice peer : PeersOf(range.device)) range.mapping->SetAccess(peer, true);
}

// Pools exist to allocate without waiting for kernels.
Range Allocate(std::size_t bytes, Kind kind, bool pooled = false) {
  ForbidWhileCapturing();
  const CUdevice device = CurrentDevice();
  Require(bytes > 0, CUDA_ERROR_INVALID_VALUE);
  if (!pooled) MayWaitForKernels();
  const bool pinned = kind == Kind::kPinned;
  const std::size_t used = pinned ? Ranges::Instance().PinnedBytes() : Ranges::Instance().DeviceBytes(device);
  const std::size_t most = pinned ? TheEnvironment().pinned_bytes : TheEnvironment().memory_bytes;
  Require(used <= most && bytes <= most - used, CUDA_ERROR_OUT_OF_MEMORY);
  auto mapping = Mapping::Make(bytes, kind == Kind::kDevice);
  Range range{.address = mapping->address(),
              .bytes = bytes,
              .kind = kind,
              .device = device,
              .pooled = pooled,
              .mapping = mapping};
  Ranges::Instance().Add(range);  // first, so that a thread that enables peer access at the same time finds it
  SetFirstAccess(range);
  if (!pinned) std::memset(mapping->view(), kSoil, std::min(bytes, kSoiledBytes));
  return range;
}

}  // namespace

Ranges& Ranges::Instance() {
  static auto* ranges = new Ranges;
  return *ranges;
}

void Ranges::Add(Range range) {
  const std::lock_guard lock(mutex_);
  range.id = next_id_++;
  ranges_.emplace(range.address, std::move(range));
}

Range Ranges::Remove(std::uintptr_t address, Kind kind, CUresult otherwise) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(address);
  Require(found != ranges_.end() && found->second.kind == kind, otherwise);
  return std::move(ranges_.extract(found).mapped());
}

std::optional<Range> Ranges::Find(std::uintptr_t address) const {
  const std::lock_guard lock(mutex_);
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return std::nullopt;
  const Range& range = std::prev(after)->second;
  return address - range.address < range.bytes ? std::optional(range) : std::nullopt;
}

bool Ranges::Overlaps(std::uintptr_t address, std::size_t bytes) const {
  if (Find(address)) return true;
  const std::lock_guard lock(mutex_);
  const auto next = ranges_.upper_bound(address);
  return next != ranges_.end() && next->first < address + bytes;
}

void Ranges::SetPeerAccess(CUdevice peer, CUdevice owner, bool may) {
  std::vector<std::shared_ptr<Mapping>> mappings;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [address, range] : ranges_) {
      if (range.kind == Kind::kDevice && !range.pooled && range.device == owner) mappings.push_back(range.mapping);
    }
  }
  for (const auto& mapping : mappings) mapping->SetAccess(peer, may);
}

std::size_t Ranges::DeviceBytes(CUdevice device) const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& [address, range] : ranges_) {
    if (range.OnDevice() && range.kind != Kind::kImported && !range.foreign && range.device == device)
      bytes += range.bytes;
  }
  return bytes;
}

std::size_t Ranges::PinnedBytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& [address, range] : ranges_) {
    if (!range.OnDevice()) bytes += range.bytes;
  }
  return bytes;
}

void MayWaitForKernels() {
  if (!TheEnvironment().allocations_wait) return;
  for (CUdevice device = 0; device < TheEnvironment().devices(); ++device) WaitForAll(device);
}

}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;  // NOLINT: what follows is the driver's interface, in no namespace

CUresult cuMemAlloc(CUdeviceptr* pointer, std::size_t bytes) {
  return Answer([&] { *pointer = Allocate(bytes, Kind::kDevice).address; });
}

// The memory is the caller's at once, not only in stream order.
CUresult cuMemAllocAsync(CUdeviceptr* pointer, std::size_t bytes, CUstream stream) {
  return Answer([&] {
    Require(StreamOf(stream)->device() == CurrentDevice(), CUDA_ERROR_INVALID_VALUE);
    *pointer = Allocate(bytes, Kind::kDevice, true).address;
  });
}

// In a capture the memory stays: a graph that runs again would have it at the same address.
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
  return Answer([&] {
    const auto stream = StreamOf(handle);
    if (const std::lock_guard lock(CaptureLock()); stream->capture != nullptr) return;
    Enqueue(stream, [pointer] { Ranges::Instance().Remove(pointer, Kind::kDevice, CUDA_ERROR_INVALID_VALUE); });
  });
}

// Host code may use it, too, also while kernels run.
CUresult cuMemAllocManaged(CUdeviceptr* pointer, std::size_t bytes, unsigned flags) {
  return Answer([&] {
    Require(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST, CUDA_ERROR_INVALID_VALUE);
    *pointer = Allocate(bytes, Kind::kManaged).address;
  });
}

// Waits for the device, as the real one does, so that no kernel loses memory that it uses.
CUresult cuMemFree(CUdeviceptr pointer) {
  return Answer([&] {
    ForbidWhileCapturing();
    if (pointer == 0) return;
    const auto range = Ranges::Instance().Find(pointer);
    Require(range && range->address == pointer && range->OnDevice() && range->kind != Kind::kImported,
            CUDA_ERROR_INVALID_VALUE);
    WaitForAll(range->device);
    Ranges::Instance().Remove(pointer, range->kind, CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
  return Answer([&] {
    *free = TheEnvironment().memory_bytes - Ranges::Instance().DeviceBytes(CurrentDevice());
    *total = TheEnvironment().memory_bytes;
  });
}

CUresult cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned /*flags*/) {
  return Answer([&] { *pointer = Pointer(Allocate(bytes, Kind::kPinned).address); });
}

CUresult cuMemFreeHost(void* pointer) {
  return Answer([&] {
    ForbidWhileCapturing();
    if (pointer == nullptr) return;
    const auto range = Ranges::Instance().Find(Address(pointer));
    Require(range && range->kind == Kind::kPinned, CUDA_ERROR_INVALID_VALUE);
    WaitForAll(range->device);
    Ranges::Instance().Remove(Address(pointer), Kind::kPinned, CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult cuMemHostRegister(void* pointer, std::size_t bytes, unsigned /*flags*/) {
  return Answer([&] {
    ForbidWhileCapturing();
    const CUdevice device = CurrentDevice();
    Require(pointer != nullptr && bytes > 0, CUDA_ERROR_INVALID_VALUE);
    const auto address = Address(pointer);
    Require(!Ranges::Instance().Overlaps(address, bytes), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    MayWaitForKernels();
    Require(Ranges::Instance().PinnedBytes() + bytes <= TheEnvironment().pinned_bytes, CUDA_ERROR_OUT_OF_MEMORY);
    if (TheEnvironment().apart) Processors::Instance().AddOwn(address, bytes);
    Ranges::Instance().Add(
        {.address = address, .bytes = bytes, .kind = Kind::kRegistered, .device = device, .mapping = nullptr});
  });
}

CUresult cuMemHostUnregister(void* pointer) {
  return Answer([&] {
    ForbidWhileCapturing();
    const auto range =
        Ranges::Instance().Remove(Address(pointer), Kind::kRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    if (TheEnvironment().apart) Processors::Instance().Remove(range.address);
  });
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* device_pointer, void* pointer, unsigned flags) {
  return Answer([&] {
    Require(flags == 0, CUDA_ERROR_INVALID_VALUE);
    const auto range = Ranges::Instance().Find(Address(pointer));
    Require(range && !range->OnDevice(), CUDA_ERROR_INVALID_VALUE);
    *device_pointer = Address(pointer);
  });
}
