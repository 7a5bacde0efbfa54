// How an entry point of the runtime's stand-in answers: by asking the driver's.
//
// Thread-safety: all of it; devices and last errors are a thread's own.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace tutti::standin {

// Codes of the driver and of the runtime for the same thing have the same number.
inline cudaError_t Code(CUresult result) { return static_cast<cudaError_t>(result); }

// Remembered for cudaGetLastError if it is an error.
cudaError_t Remember(cudaError_t error);

// The driver initialized, and a context current in this thread: the first device's unless another was set.
CUresult Prepare();
CUresult SetDevice(int device);

// `work` returns what the driver answers.
template <class Work>
cudaError_t Call(Work&& work) {
  CUresult result = Prepare();
  if (result == CUDA_SUCCESS) result = work();
  return Remember(Code(result));
}

inline CUdeviceptr Device(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace tutti::standin
