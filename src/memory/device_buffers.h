// The kind of memory of a call's buffers, and thus the executor that runs the call.
//
// Thread-safety: the functions answer as the driver does.
#pragma once

#include <array>
#include <atomic>

#include "src/plan/operation.h"
#include "transports/cuda/fabric.h"

namespace tutti::memory {

// Addresses that were right for the device when the driver was last asked. Threads that ask the driver at the same time
// wait for each other: beside an H100, two questions in every call of eight threads take 8 us (scripts/gpu_kit/limits.cu).
// A program that reuses an address for memory that is wrong gets a fault of the GPU, or is told so by a later call, of
// which one in kAsksEvery asks.
//
// Thread-safety: all of it.
class KnownBuffers {
 public:
  static constexpr std::uint32_t kAsksEvery = 64;

  // Whether both are known, or null; once in kAsksEvery times it says no.
  bool Know(const void* one, const void* other);
  void Remember(const void* one, const void* other);

 private:
  std::atomic<const void*>& EntryOf(const void* pointer);

  static constexpr std::size_t kEntries = 64;
  std::array<std::atomic<const void*>, kEntries> entries_{};
  std::atomic<std::uint32_t> asked_{0};
};

// True if the call is for the GPU, false if it is for the host. `stream` is null or not this library's. Throws
// tuttiInvalidArgument for buffers of two kinds, of another device, or of the host with a CUDA stream.
bool IsForDevice(const cuda_transport::CudaDevice& device, const plan::Operation& operation, tuttiStream_t stream,
                 KnownBuffers& known);

// This process has loaded CUDA's driver, as far as it was looked at: at each communicator's init.
bool CudaIsInUse();

// Throws tuttiInvalidArgument if a communicator without a device is given a CUDA stream or memory of a GPU, as far as
// can be told: a process that does not use CUDA has neither. `why`: it has no device.
void RequireHostCall(const plan::Operation& operation, tuttiStream_t stream, std::string_view why);

// The device of the calling thread's current CUDA context; TUTTI_DEVICE_NONE if it has none. Does not start CUDA.
int CurrentCudaDevice();
// Domain << 20 | bus << 12 | device << 4 of its place on PCI; 0 if CUDA does not tell.
std::uint64_t BusIdOf(int device);
// The number of this process's devices; 0 if it does not use CUDA.
int CudaDevicesInUse();

// Whether this is memory of a GPU alone, as cudaMalloc gives it.
bool IsGpuMemory(const cuda_transport::CudaDevice& device, const void* pointer);
// Whether a kernel on `device` can read this.
bool DeviceReads(const cuda_transport::CudaDevice& device, const void* pointer);

// Whether kernels on other devices of this process, with peer access enabled, can read this memory of `device`. They
// cannot read pools and mappings (cudaMallocAsync, cuMemMap), whose access is controlled separately, but for tuttiMemAlloc's.
bool PeersMayReach(const cuda_transport::CudaDevice& device, const void* pointer);

}  // namespace tutti::memory
