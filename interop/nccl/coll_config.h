// Reads an ncclCollConfig_t, the configuration of one collective.
//
// Thread-safety: the functions may be called from any thread.
#pragma once

#include "interop/nccl/nccl.h"

namespace tutti::nccl {

// Checks all fields. Throws Refusal.
void CheckCollConfig(const ncclCollConfig_t& config);

// The event to record at the launch, or null.
cudaEvent_t LaunchEventOf(const ncclCollConfig_t& config);
// Records it before the launch, as NCCL does where CUDA has no event of a launch. Throws Refusal.
void RecordLaunch(cudaEvent_t event, cudaStream_t stream);

}  // namespace tutti::nccl
