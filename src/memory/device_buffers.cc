#include "src/memory/device_buffers.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>

#include "base/error.h"
#include "base/fork_safe_mutex.h"
#include "base/threads/made_once.h"
#include "src/memory/memory.h"

namespace tutti::memory {
namespace {

enum class Memory { none, plain, pinned, managed, device };

struct Buffer {
  Memory memory = Memory::none;
  int ordinal = -1;
};

Buffer Look(const cuda_transport::CudaDriver& driver, const void* pointer) {
  if (pointer == nullptr) return {};
  unsigned type = 0, managed = 0;
  int ordinal = -1;
  int attributes[] = {cuda_transport::kCuPointerMemoryType, cuda_transport::kCuPointerIsManaged,
                      cuda_transport::kCuPointerDeviceOrdinal};
  void* values[] = {&type, &managed, &ordinal};
  // This query takes any address and returns 0 for unknown ones.
  const auto result = driver.cuPointerGetAttributes(std::size(attributes), attributes, values,
                                                    reinterpret_cast<cuda_transport::CuPointer>(pointer));
  driver.CheckContext(result, "cuPointerGetAttributes");
  if (result != cuda_transport::kCuSuccess || type == 0) return {Memory::plain};
  if (managed != 0) return {Memory::managed};
  return {type == cuda_transport::kCuMemoryDevice ? Memory::device : Memory::pinned, ordinal};
}

const char* PhraseOf(Memory memory) {
  switch (memory) {
    case Memory::plain: return "ordinary host memory";
    case Memory::pinned: return "pinned host memory";
    case Memory::managed: return "managed memory";
    default: return "memory of a GPU";
  }
}

bool OnGpu(const Buffer& buffer) { return buffer.memory == Memory::device || buffer.memory == Memory::managed; }

// Whether this process was seen to have loaded the driver.
std::atomic<bool> driver_in_use{false};

// Held while the loader is queried: a child forked during the query would find the loader's tables half-changed, and
// crash in its own query.
ForkSafeMutex& AskingLoader() {
  static constinit MadeOnce<ForkSafeMutex> mutex;
  return mutex.Get();
}

// The driver, if this process has already loaded it; the query must not start it.
const cuda_transport::CudaDriver* DriverInUse() {
  if (!driver_in_use.load(std::memory_order_relaxed)) {
    const std::lock_guard lock(AskingLoader());
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return nullptr;
    dlclose(library);
    driver_in_use.store(true, std::memory_order_relaxed);
  }
  return cuda_transport::LoadedCudaDriver();
}

}  // namespace

std::atomic<const void*>& KnownBuffers::EntryOf(const void* pointer) {
  constexpr std::uintptr_t kAllocationBytes = 256;  // addresses of allocations are multiples of it
  return entries_[reinterpret_cast<std::uintptr_t>(pointer) / kAllocationBytes % kEntries];
}

bool KnownBuffers::Know(const void* one, const void* other) {
  if (asked_.fetch_add(1, std::memory_order_relaxed) % kAsksEvery == kAsksEvery - 1) return false;
  const auto knows = [&](const void* pointer) {
    return pointer == nullptr || EntryOf(pointer).load(std::memory_order_relaxed) == pointer;
  };
  return knows(one) && knows(other);
}

void KnownBuffers::Remember(const void* one, const void* other) {
  for (const void* const pointer : {one, other}) {
    if (pointer != nullptr) EntryOf(pointer).store(pointer, std::memory_order_relaxed);
  }
}

bool IsForDevice(const cuda_transport::CudaDevice& device, const plan::Operation& operation, tuttiStream_t stream,
                 KnownBuffers& known) {
  if (operation.collective == schedule::Collective::barrier) return stream != nullptr;
  // Without a stream, memory of the host would be right, too.
  if (stream != nullptr && known.Know(operation.input, operation.output)) return true;
  const auto& driver = device.driver();
  const struct {
    const char* name;
    const void* pointer;
    Buffer buffer;
  } buffers[] = {{"sendbuff", operation.input, Look(driver, operation.input)},
                 {"recvbuff", operation.output, Look(driver, operation.output)}};
  for (const auto& [name, pointer, buffer] : buffers) {
    if (buffer.memory == Memory::device && buffer.ordinal != device.ordinal()) {
      Throw(tuttiInvalidArgument, "{} ({}) is memory of device {}, but the communicator's device is {}", name, pointer,
            buffer.ordinal, device.ordinal());
    }
    if (buffer.memory == Memory::plain && stream != nullptr) {
      Throw(tuttiInvalidArgument,
            "{} ({}) is ordinary host memory, but the stream is a CUDA stream; pass a stream of tuttiStreamCreate or "
            "NULL, or memory of the device",
            name, pointer);
    }
  }
  const auto& send = buffers[0].buffer;
  const auto& receive = buffers[1].buffer;
  const bool mixed =
      (send.memory == Memory::plain && OnGpu(receive)) || (OnGpu(send) && receive.memory == Memory::plain);
  if (mixed) {
    Throw(tuttiInvalidArgument, "sendbuff is {}, but recvbuff is {}; both must be of the same kind",
          PhraseOf(send.memory), PhraseOf(receive.memory));
  }
  if (send.memory == Memory::plain || receive.memory == Memory::plain) return false;
  // Pinned memory is the host's, unless there is a stream. A rank without any buffers takes part with no data of its
  // own: on a communicator with a device, that is a call for the device.
  const bool pinned_only =
      !OnGpu(send) && !OnGpu(receive) && (send.memory == Memory::pinned || receive.memory == Memory::pinned);
  const bool is_for_device = stream != nullptr || !pinned_only;
  if (is_for_device) known.Remember(operation.input, operation.output);
  return is_for_device;
}

bool CudaIsInUse() { return driver_in_use.load(std::memory_order_relaxed); }

void RequireHostCall(const plan::Operation& operation, tuttiStream_t stream, std::string_view why) {
  // Looking whether CUDA has been loaded takes as long as a small call, so that is done at init only.
  const bool in_use = CudaIsInUse();
  if (stream == nullptr && !in_use) return;
  std::string unusable;
  const cuda_transport::CudaDriver* const driver = in_use ? cuda_transport::LoadedCudaDriver(&unusable) : nullptr;
  if (stream != nullptr) {
    Throw(tuttiInvalidArgument,
          "stream {} was not made by tuttiStreamCreate, or has been destroyed; and the communicator has no CUDA device "
          "({}{}{})",
          stream, why, unusable.empty() ? "" : "; ", unusable);
  }
  if (driver == nullptr) return;
  for (const auto& [name, pointer] :
       {std::pair("sendbuff", operation.input), std::pair("recvbuff", static_cast<const void*>(operation.output))}) {
    if (Look(*driver, pointer).memory != Memory::device) continue;
    Throw(tuttiInvalidArgument, "{} ({}) is GPU memory, but the communicator accepts host memory only ({})", name,
          pointer, why);
  }
}

int CurrentCudaDevice() {
  const cuda_transport::CudaDriver* const driver = DriverInUse();
  cuda_transport::CuContext context = nullptr;
  if (driver == nullptr || driver->cuCtxGetCurrent(&context) != cuda_transport::kCuSuccess || context == nullptr) {
    return TUTTI_DEVICE_NONE;
  }
  cuda_transport::CuDevice device = 0;
  return driver->cuCtxGetDevice(&device) == cuda_transport::kCuSuccess ? device : TUTTI_DEVICE_NONE;
}

std::uint64_t BusIdOf(int device) {
  const cuda_transport::CudaDriver* const driver = DriverInUse();
  cuda_transport::CuDevice handle = 0;
  if (driver == nullptr || driver->cuDeviceGet(&handle, device) != cuda_transport::kCuSuccess) return 0;
  std::uint64_t id = 0;
  for (const auto& [attribute, shift] :
       {std::pair(cuda_transport::kCuPciDomain, 20), std::pair(cuda_transport::kCuPciBus, 12),
        std::pair(cuda_transport::kCuPciDevice, 4)}) {
    int value = 0;
    if (driver->cuDeviceGetAttribute(&value, attribute, handle) != cuda_transport::kCuSuccess) return 0;
    id |= static_cast<std::uint64_t>(value) << shift;
  }
  return id;
}

int CudaDevicesInUse() {
  if (CurrentCudaDevice() == TUTTI_DEVICE_NONE) return 0;
  int count = 0;
  return DriverInUse()->cuDeviceGetCount(&count) == cuda_transport::kCuSuccess ? count : 0;
}

bool IsGpuMemory(const cuda_transport::CudaDevice& device, const void* pointer) {
  return Look(device.driver(), pointer).memory == Memory::device;
}

bool PeersMayReach(const cuda_transport::CudaDevice& device, const void* pointer) {
  unsigned capable = 0;
  int attribute = cuda_transport::kCuPointerIsIpcCapable;
  void* value = &capable;
  const auto result = device.driver().cuPointerGetAttributes(1, &attribute, &value,
                                                             reinterpret_cast<cuda_transport::CuPointer>(pointer));
  return (result == cuda_transport::kCuSuccess && capable != 0) || IsAllocatedOnDevice(pointer);
}

bool DeviceReads(const cuda_transport::CudaDevice& device, const void* pointer) {
  return Look(device.driver(), pointer).memory != Memory::plain;
}

}  // namespace tutti::memory
