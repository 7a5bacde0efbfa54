/* The program that hangs in docs/troubleshooting.md: rank 2 does not make the second call. */
#include <stdlib.h>
#include <tutti/tutti.h>
#include <unistd.h>

int main(void) {
  tuttiComm_t comm = NULL;
  float one = 1, sum = 0;
  int rank = 0;
  if (tuttiCommInitEnv(&comm, NULL) != tuttiSuccess) return EXIT_FAILURE;
  tuttiCommUserRank(comm, &rank);
  tuttiResult_t result = tuttiAllReduce(&one, &sum, 1, tuttiFloat, tuttiSum, comm, NULL);
  while (rank == 2) pause();
  if (result == tuttiSuccess) result = tuttiAllReduce(&one, &sum, 1, tuttiFloat, tuttiSum, comm, NULL);
  return result == tuttiSuccess ? EXIT_SUCCESS : EXIT_FAILURE;
}
