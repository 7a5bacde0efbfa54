// The one place that needs CUDA's headers; compiled where PyTorch has CUDA (setup.py).
#pragma once

#include "interop/torch/csrc/devices.h"

namespace tutti::pytorch {

// REQUIRES: a stream of PyTorch's CUDA.
tuttiStream_t CudaNativeStream(const c10::Stream& stream);

}  // namespace tutti::pytorch
