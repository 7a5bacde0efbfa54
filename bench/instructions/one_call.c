// Calls that callgrind counts: all-reduces of 8 B on one rank, so that none waits. See scripts/measure/instructions.sh.
#include <stddef.h>
#include <valgrind/callgrind.h>

#include "tutti/tutti.h"

enum { kWarmUp = 100, kCalls = 1000 };

static tuttiResult_t Repeat(int calls, tuttiComm_t comm) {
  const float input[2] = {1, 2};
  float output[2];
  tuttiResult_t result = tuttiSuccess;
  for (int i = 0; i < calls && result == tuttiSuccess; ++i) {
    result = tuttiAllReduce(input, output, 2, tuttiFloat32, tuttiSum, comm, NULL);
  }
  return result;
}

int main(void) {
  tuttiUniqueId id;
  tuttiComm_t comm;
  if (tuttiGetUniqueId(&id) != tuttiSuccess || tuttiCommInitRank(&comm, 1, id, 0) != tuttiSuccess) return 1;
  tuttiResult_t result = Repeat(kWarmUp, comm);
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_TOGGLE_COLLECT;
  if (result == tuttiSuccess) result = Repeat(kCalls, comm);
  CALLGRIND_TOGGLE_COLLECT;
  CALLGRIND_STOP_INSTRUMENTATION;
  if (result == tuttiSuccess) result = tuttiCommDestroy(comm);
  return result == tuttiSuccess ? 0 : 1;
}
