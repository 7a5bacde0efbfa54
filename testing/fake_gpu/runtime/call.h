// How entry points of the fake GPU's runtime work: they call the driver's.
//
// Thread-safety: all of it; devices and last errors are per thread.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace tutti::fake_gpu {

// Codes of the driver and of the runtime for the same thing have the same number.
inline cudaError_t Code(CUresult result) { return static_cast<cudaError_t>(result); }

// Remembered for cudaGetLastError if it is an error.
cudaError_t Remember(cudaError_t error);

// Initializes the driver, and makes a context current in this thread: the first device's unless another was set.
CUresult Prepare();
CUresult SetDevice(int device);

// `work` returns the driver's result.
template <class Work>
cudaError_t Call(Work&& work) {
  CUresult result = Prepare();
  if (result == CUDA_SUCCESS) result = work();
  return Remember(Code(result));
}

inline CUdeviceptr Device(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace tutti::fake_gpu
