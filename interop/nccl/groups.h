// Groups. Tutti collects collectives, sends, receives, joins and splits itself. This file collects other calls that
// NCCL allows in a group and that wait for other ranks. It runs them at the outermost ncclGroupEnd, after Tutti's part,
// so that one thread may make them for several communicators.
//
// Thread-safety: a group belongs to its thread.
#pragma once

#include <functional>

#include "interop/nccl/nccl.h"

namespace tutti::nccl {

// Collects the work in a group; otherwise runs it here, now. Works of one communicator run in order, of several
// concurrently. Guard handles the work's failures.
ncclResult_t RunOrCollect(ncclComm_t comm, std::function<ncclResult_t()> work);

}  // namespace tutti::nccl
