// Times tuttiAllReduce in a bare loop, beside calls.py; see there. The ranks come from the environment.
//   calls BYTES CALLS     prints ns a call, on rank 0
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tutti/tutti.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const size_t count = strtoull(argv[1], NULL, 10) / sizeof(double);
  const long calls = strtol(argv[2], NULL, 10);
  tuttiComm_t comm = NULL;
  int rank = 0;
  double* const in = calloc(count, sizeof(double));
  double* const out = calloc(count, sizeof(double));
  if (in == NULL || out == NULL || tuttiCommInitEnv(&comm, NULL) != tuttiSuccess) return 1;
  if (tuttiCommUserRank(comm, &rank) != tuttiSuccess) return 1;
  double start = 0;
  for (long i = -calls / 10; i < calls; ++i) {
    if (i == 0) {
      if (tuttiBarrier(comm, NULL) != tuttiSuccess) return 1;
      start = now();
    }
    if (tuttiAllReduce(in, out, count, tuttiDouble, tuttiSum, comm, NULL) != tuttiSuccess) return 1;
  }
  if (rank == 0) printf("%.1f\n", (now() - start) / (double)calls);
  tuttiCommDestroy(comm);
  free(in);
  free(out);
  return 0;
}
