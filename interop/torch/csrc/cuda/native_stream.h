// The only file that needs CUDA's headers; compiled where PyTorch has CUDA (setup.py).
#pragma once

#include "interop/torch/csrc/devices.h"

namespace tutti::pytorch {

// REQUIRES: `stream` is one of PyTorch's CUDA streams.
tuttiStream_t CudaNativeStream(const c10::Stream& stream);

}  // namespace tutti::pytorch
