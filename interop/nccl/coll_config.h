// Reads an ncclCollConfig_t, the configuration of one collective.
//
// Thread-safety: the functions may be called from any thread.
#pragma once

#include "interop/nccl/nccl.h"

namespace tutti::nccl {

// Checks all fields, and records the event on `stream` if there is one: before the launch, as NCCL does where CUDA has
// no event of a launch. `on_device`: the call runs on a GPU. Null is allowed. Throws Refusal.
void ApplyCollConfig(const ncclCollConfig_t* config, bool on_device, cudaStream_t stream);

}  // namespace tutti::nccl
