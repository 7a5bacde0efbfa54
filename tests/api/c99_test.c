/* C callers compile the header as C99, with every warning, and get a library that works. */
#include "tutti/tutti.h"

#include <stdio.h>

/* Runs all ranks in one process, so that it needs only this program. The suite calls it. */
int TuttiFromC99(void);
int TuttiFromC99(void) {
  enum { kRanks = 3 };
  tuttiComm_t comms[kRanks];
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  float data[kRanks] = {1, 2, 3};
  int rank, failures = 0;
  failures += config.magic != TUTTI_CONFIG_MAGIC || config.algorithm != NULL;
  failures += tuttiCommInitAll(comms, kRanks, NULL) != tuttiSuccess;
  failures += tuttiGroupStart() != tuttiSuccess;
  for (rank = 0; rank < kRanks; ++rank) {
    failures += tuttiAllReduce(&data[rank], &data[rank], 1, tuttiFloat, tuttiSum, comms[rank], NULL) != tuttiSuccess;
  }
  failures += tuttiGroupEnd() != tuttiSuccess;
  for (rank = 0; rank < kRanks; ++rank) {
    failures += data[rank] != 6.0f;
    failures += tuttiCommDestroy(comms[rank]) != tuttiSuccess;
  }
  if (failures != 0) fprintf(stderr, "%s\n", tuttiGetLastError(NULL));
  return failures;
}
