// What the fake GPU's runtime cannot do, said by name: in the text of the error, and once on stderr.
//
// Thread-safety: all of it; a refusal is the text of its code for the thread that met it.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

// Their header, cuda_profiler_api.h, is in no package that PyTorch needs from PyPI.
extern "C" {
cudaError_t cudaProfilerStart();
cudaError_t cudaProfilerStop();
}

namespace tutti::fake_gpu {

// Remembers `error` for cudaGetLastError. From now on cudaGetErrorString(error) is `text` in this thread.
cudaError_t Refuse(cudaError_t error, const std::string& text);

// The text of the thread's last refusal with this code; null if there was none.
const char* RefusalText(cudaError_t error);

// For a function that the fake GPU does not have.
inline cudaError_t RefuseFunction(const char* function) {
  return Refuse(cudaErrorNotSupported, std::string("the fake GPU's CUDA runtime has no ") + function);
}

}  // namespace tutti::fake_gpu
