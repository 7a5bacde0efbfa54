/* Counts the ranks: each gives 1, all get the sum. Start one process per rank, with RANK, WORLD_SIZE, MASTER_ADDR and
 * MASTER_PORT set: by torchrun, or by `examples/run.sh 4 ./all_reduce`. */
#include <stdio.h>
#include <tutti/tutti.h>

int main(void) {
  tuttiComm_t comm = NULL;
  float one = 1, ranks = 0;
  tuttiResult_t result = tuttiCommInitEnv(&comm, NULL);
  if (result == tuttiSuccess) result = tuttiAllReduce(&one, &ranks, 1, tuttiFloat, tuttiSum, comm, NULL);
  if (result == tuttiSuccess) printf("%g ranks are here\n", ranks);
  else fprintf(stderr, "%s: %s\n", tuttiGetErrorString(result), tuttiGetLastError(comm));
  if (comm != NULL) tuttiCommDestroy(comm);
  return result;
}
