/* Two ranks that call differently, and print what they are told. call_sites_test.sh knows its lines. */
#include <stdio.h>
#include <tutti/tutti.h>

static float in[8], out[16];

static __attribute__((noinline)) int step(tuttiComm_t comm, int rank) {
  volatile int result = 0; /* no tail call: its return address would be in main */
  if (rank == 0) {
    result = tuttiAllReduce(in, out, 8, tuttiFloat32, tuttiSum, comm, NULL);
  } else {
    result = tuttiAllGather(in, out, 8, tuttiFloat32, comm, NULL);
  }
  return result;
}

int main(void) {
  tuttiComm_t comm = NULL;
  int rank = -1;
  if (tuttiCommInitEnv(&comm, NULL) != tuttiSuccess || tuttiCommUserRank(comm, &rank) != tuttiSuccess) return 2;
  const int result = step(comm, rank);
  if (result != tuttiSuccess) puts(tuttiGetLastError(comm));
  tuttiCommDestroy(comm);
  return result == tuttiInvalidUsage ? 0 : 1;
}
