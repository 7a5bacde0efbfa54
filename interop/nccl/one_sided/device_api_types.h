// Types that NVIDIA's nccl_device.h defines and that calls of the host pass by value, and functions that nccl.h cannot
// declare beside that header, because their types have no names.
#pragma once

#include "interop/nccl/nccl.h"

// Ranks of a communicator: rank i of the team is rank (this rank + (i - rank) * stride) of the communicator.
struct ncclTeam {
  int nRanks;
  int rank;  // this rank's
  int stride;
};

// Memory that a switch multiplies.
struct ncclMultimemHandle {
  void* address;
};

extern "C" {
#define TUTTI_NCCL_FUNCTION(result, name, arguments) __attribute__((visibility("default"))) result name arguments
// `mode`: ncclCftTeamMode_t
TUTTI_NCCL_FUNCTION(ncclTeam_t, ncclTeamCft, (ncclComm_t comm, int mode));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGinOutboxCreateRequirement,
                    (int nBlocks, int sizeLog2, void* outHandle, ncclDevResourceRequirements_t* outReq));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGinInboxA2ACreateRequirement,
                    (ncclTeam_t peers, int nBlocks, int sizeLog2, void* outHandle,
                     ncclDevResourceRequirements_t* outReq));
#undef TUTTI_NCCL_FUNCTION
}
