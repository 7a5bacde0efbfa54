#include "interop/torch/csrc/cuda/native_stream.h"

#include <c10/cuda/CUDAStream.h>

namespace tutti::pytorch {

tuttiStream_t CudaNativeStream(const c10::Stream& stream) { return c10::cuda::CUDAStream(stream).stream(); }

}  // namespace tutti::pytorch
