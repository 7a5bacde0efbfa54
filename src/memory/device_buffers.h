// What memory a call's buffers are, and so which executor it is for.
//
// Thread-safety: pure functions of the driver's answers.
#pragma once

#include "src/plan/operation.h"
#include "transports/cuda/fabric.h"

namespace tutti {

// True if the call is for the GPU, false if it is for the host. `stream` is null or not one of ours. Throws
// tuttiInvalidArgument for buffers of two kinds, of another device, or of the host where the stream is CUDA's.
bool IsForDevice(const CudaDevice& device, const Operation& operation, tuttiStream_t stream);

// This process has loaded CUDA's driver, as far as it was looked at: at each communicator's init.
bool CudaIsInUse();

// Throws tuttiInvalidArgument if a communicator without a device is given a CUDA stream or memory of a GPU, as far as
// can be told: a process that does not use CUDA has neither. `why`: it has no device.
void RequireHostCall(const Operation& operation, tuttiStream_t stream, std::string_view why);

// The device of the calling thread's current CUDA context; TUTTI_DEVICE_NONE if it has none. Does not start CUDA.
int CurrentCudaDevice();
// How many devices this process has; 0 if it does not use CUDA.
int CudaDevicesInUse();

// Memory of a GPU alone, as cudaMalloc gives it.
bool IsGpuMemory(const CudaDevice& device, const void* pointer);
// Can a kernel on `device` read this?
bool DeviceReads(const CudaDevice& device, const void* pointer);

// Can kernels on other devices of this process, to which peer access is enabled, read this memory of `device`? Not so
// for memory of pools and of mappings (cudaMallocAsync, cuMemMap), whose access is a matter of their own.
bool PeersMayReach(const CudaDevice& device, const void* pointer);

}  // namespace tutti
