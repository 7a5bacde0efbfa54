/* Measures when the other ranks know that a rank was killed, and when they go on (docs/faults.md):
 *
 *   cc scripts/measure/rank_dies.c $(pkg-config --cflags --libs tutti) -o rank_dies && tutti run -n 4 ./rank_dies
 *
 * Rank 1 kills itself in the middle of a loop of all-reduces. The others then shrink, and call again. Each event is a line:
 * rank, event, milliseconds since the kill. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tutti/tutti.h>

enum { kVictim = 1, kCallsBefore = 1000, kCount = 16384 };

static double Milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static void Check(tuttiResult_t result, tuttiComm_t comm, const char* call) {
  if (result == tuttiSuccess) return;
  fprintf(stderr, "%s: %s\n", call, tuttiGetLastError(comm));
  exit(EXIT_FAILURE);
}

int main(void) {
  static float data[kCount];
  tuttiComm_t comm = NULL, rest = NULL;
  int rank = 0, calls = 0;
  Check(tuttiCommInitEnv(&comm, NULL), comm, "tuttiCommInitEnv");
  Check(tuttiCommUserRank(comm, &rank), comm, "tuttiCommUserRank");
  for (; calls < kCallsBefore; ++calls) {
    Check(tuttiAllReduce(data, data, kCount, tuttiFloat, tuttiMax, comm, NULL), comm, "tuttiAllReduce");
  }
  double killed = Milliseconds();
  Check(tuttiBroadcast(&killed, &killed, 1, tuttiDouble, kVictim, comm, NULL), comm, "tuttiBroadcast");
  if (rank == kVictim) raise(SIGKILL);
  if (tuttiAllReduce(data, data, kCount, tuttiFloat, tuttiMax, comm, NULL) == tuttiSuccess) return EXIT_FAILURE;
  const double failed = Milliseconds();
  Check(tuttiCommShrink(comm, NULL, 0, &rest, NULL, TUTTI_SHRINK_DEFAULT), comm, "tuttiCommShrink");
  const double shrunk = Milliseconds();
  Check(tuttiAllReduce(data, data, kCount, tuttiFloat, tuttiMax, rest, NULL), rest, "tuttiAllReduce");
  const double again = Milliseconds();
  printf("%d,error,%.3f\n%d,shrunk,%.3f\n%d,next call,%.3f\n", rank, failed - killed, rank, shrunk - killed, rank,
         again - killed);
  fflush(stdout);
  tuttiCommDestroy(rest);
  tuttiCommDestroy(comm);
  return EXIT_SUCCESS;
}
