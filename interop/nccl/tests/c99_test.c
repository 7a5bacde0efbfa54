/* Tests that our nccl.h compiles as C99 with all warnings, and that the library works from C. */
#include "interop/nccl/nccl.h"

#include <stdio.h>

/* A typical single-process NCCL program. Called by the suite. */
int NcclFromC99(void);
int NcclFromC99(void) {
  enum { kRanks = 3 };
  ncclComm_t comms[kRanks];
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  float data[kRanks] = {1, 2, 3};
  int rank, failures = 0;
  failures += config.blocking != NCCL_CONFIG_UNDEF_INT || config.nvlsCTAs != NCCL_CONFIG_UNDEF_INT;
  failures += info.estimatedTime != NCCL_UNDEF_FLOAT;
  failures += NCCL_VERSION_CODE != NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
  failures += ncclCommInitAll(comms, kRanks, NULL) != ncclSuccess;
  failures += ncclGroupStart() != ncclSuccess;
  for (rank = 0; rank < kRanks; ++rank) {
    failures += pncclAllReduce(&data[rank], &data[rank], 1, ncclFloat, ncclSum, comms[rank], NULL) != ncclSuccess;
  }
  failures += ncclGroupEnd() != ncclSuccess;
  for (rank = 0; rank < kRanks; ++rank) {
    failures += data[rank] != 6.0f;
    failures += ncclCommDestroy(comms[rank]) != ncclSuccess;
  }
  if (failures != 0) fprintf(stderr, "%s\n", ncclGetLastError(NULL));
  return failures;
}
