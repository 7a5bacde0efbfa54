// Groups. Tutti collects collectives, sends, receives, joins and splits by itself. What else NCCL allows in a group and
// has to wait for other ranks is collected here and run at the outermost ncclGroupEnd, after Tutti's part, so that one
// thread may do it for several communicators.
//
// Thread-safety: a group belongs to its thread.
#pragma once

#include <functional>

#include "interop/nccl/nccl.h"

namespace tutti::nccl {

// In a group: collected. Else run here, now. Works of one communicator run in order, of several side by side.
// The work's failures go to Guard.
ncclResult_t RunOrCollect(ncclComm_t comm, std::function<ncclResult_t()> work);

}  // namespace tutti::nccl
