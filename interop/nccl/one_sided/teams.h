// Teams of a communicator's ranks, as NCCL divides them.
//
// Thread-safety: pure functions.
#pragma once

#include "interop/nccl/one_sided/device_api_types.h"

namespace tutti::nccl {

// The ranks that share this rank's host, and reach each other's windows. As in NCCL, all such teams have the same size
// and consecutive ranks: the largest for which that is so. Throws TuttiFailure.
ncclTeam LsaTeam(ncclComm_t comm);

}  // namespace tutti::nccl
