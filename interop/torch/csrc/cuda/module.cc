// The Python module tutti_torch._cuda_*: finds the CUDA stream behind a PyTorch stream. It is apart from tutti_torch._C_*,
// because it needs libc10_cuda.so, which a PyTorch without CUDA lacks. The only file that needs CUDA's headers (setup.py).
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/utils/pybind.h>

#include "interop/torch/csrc/devices.h"

namespace tutti::pytorch {
namespace {

// REQUIRES: `stream` is one of PyTorch's CUDA streams.
tuttiStream_t CudaNativeStream(const c10::Stream& stream) { return c10::cuda::CUDAStream(stream).stream(); }

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.doc() = "CUDA's streams for the c10d backend tutti";
  module.def("native_stream", [] { return reinterpret_cast<std::uintptr_t>(&CudaNativeStream); });
}

}  // namespace tutti::pytorch
