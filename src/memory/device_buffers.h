// The kind of memory of a call's buffers, and thus the executor that runs the call.
//
// Thread-safety: pure functions of the driver's answers.
#pragma once

#include "src/plan/operation.h"
#include "transports/cuda/fabric.h"

namespace tutti::memory {

// True if the call is for the GPU, false if it is for the host. `stream` is null or not this library's. Throws
// tuttiInvalidArgument for buffers of two kinds, of another device, or of the host with a CUDA stream.
bool IsForDevice(const cuda_transport::CudaDevice& device, const plan::Operation& operation, tuttiStream_t stream);

// This process has loaded CUDA's driver, as far as it was looked at: at each communicator's init.
bool CudaIsInUse();

// Throws tuttiInvalidArgument if a communicator without a device is given a CUDA stream or memory of a GPU, as far as
// can be told: a process that does not use CUDA has neither. `why`: it has no device.
void RequireHostCall(const plan::Operation& operation, tuttiStream_t stream, std::string_view why);

// The device of the calling thread's current CUDA context; TUTTI_DEVICE_NONE if it has none. Does not start CUDA.
int CurrentCudaDevice();
// The number of this process's devices; 0 if it does not use CUDA.
int CudaDevicesInUse();

// Whether this is memory of a GPU alone, as cudaMalloc gives it.
bool IsGpuMemory(const cuda_transport::CudaDevice& device, const void* pointer);
// Whether a kernel on `device` can read this.
bool DeviceReads(const cuda_transport::CudaDevice& device, const void* pointer);

// Whether kernels on other devices of this process, with peer access enabled, can read this memory of `device`. They
// cannot read pools and mappings (cudaMallocAsync, cuMemMap), whose access is controlled separately.
bool PeersMayReach(const cuda_transport::CudaDevice& device, const void* pointer);

}  // namespace tutti::memory
