// Times calls of 8 B in a bare loop: RANKS processes, rank r on the (r mod cores)th core that this process may use.
//   small_calls RANKS       prints rank 0's ns a call: all-reduce, all-gather, all-to-all, broadcast (medians)
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tutti/tutti.h"

enum { kCollectives = 4, kRounds = 21, kMostRanks = 64, kFloats = 2 };

// Shared by the processes.
struct Meeting {
  tuttiUniqueId id;
  volatile int ready;
};

static double Nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int Compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void Pin(int rank) {
  cpu_set_t allowed, mine;
  sched_getaffinity(0, sizeof allowed, &allowed);
  int skip = rank % CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || skip-- > 0) continue;
    CPU_ZERO(&mine);
    CPU_SET(cpu, &mine);
    sched_setaffinity(0, sizeof mine, &mine);
    return;
  }
}

static tuttiResult_t Call(int collective, const float* in, float* out, tuttiComm_t comm) {
  switch (collective) {
    case 0: return tuttiAllReduce(in, out, kFloats, tuttiFloat32, tuttiSum, comm, NULL);
    case 1: return tuttiAllGather(in, out, kFloats, tuttiFloat32, comm, NULL);
    case 2: return tuttiAlltoAll(in, out, kFloats, tuttiFloat32, comm, NULL);
    default: return tuttiBroadcast(in, out, kFloats, tuttiFloat32, 0, comm, NULL);
  }
}

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? atoi(argv[1]) : 2;
  if (ranks < 1 || ranks > kMostRanks) return 2;
  struct Meeting* const meeting =
      mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int rank = 0;
  for (int child = 1; child < ranks && rank == 0; ++child) {
    if (fork() == 0) rank = child;
  }
  Pin(rank);
  if (rank == 0) {
    if (tuttiGetUniqueId(&meeting->id) != tuttiSuccess) return 1;
    __atomic_store_n(&meeting->ready, 1, __ATOMIC_RELEASE);
  }
  while (__atomic_load_n(&meeting->ready, __ATOMIC_ACQUIRE) == 0) usleep(100);
  tuttiComm_t comm;
  if (tuttiCommInitRank(&comm, ranks, meeting->id, rank) != tuttiSuccess) {
    fprintf(stderr, "%s\n", tuttiGetLastError(NULL));
    return 1;
  }
  static float in[kFloats * kMostRanks], out[kFloats * kMostRanks];
  static double ns[kCollectives][kRounds];
  const int calls = ranks > 2 ? 3000 : 60000;
  for (int round = 0; round < kRounds; ++round) {
    for (int collective = 0; collective < kCollectives; ++collective) {
      const double start = Nanoseconds();
      for (int call = 0; call < calls; ++call) {
        if (Call(collective, in, out, comm) != tuttiSuccess) return 1;
      }
      ns[collective][round] = (Nanoseconds() - start) / calls;
    }
  }
  for (int collective = 0; collective < kCollectives && rank == 0; ++collective) {
    qsort(ns[collective], kRounds, sizeof(double), Compare);
    printf("%8.1f", ns[collective][kRounds / 2]);
  }
  tuttiCommDestroy(comm);
  if (rank != 0) return 0;
  printf("\n");
  while (wait(NULL) > 0) {
  }
  return 0;
}
