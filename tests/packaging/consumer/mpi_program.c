/* An MPI program that knows nothing of Tutti: ranks add their numbers, more often than MPI itself does it (docs/mpi.md). */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank, ranks, call, wrong = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (call = 0; call < 10; ++call) {
    int number = rank + call, sum = -1;
    MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != ranks * (ranks - 1) / 2 + ranks * call) wrong = 1;
  }
  MPI_Finalize();
  if (wrong) fprintf(stderr, "rank %d: a sum is wrong\n", rank);
  return wrong;
}
