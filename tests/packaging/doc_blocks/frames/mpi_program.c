/* The program of docs/mpi.md: it makes more calls on one communicator than the layer leaves to MPI. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank = 0, ranks = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int call = 0; call < 20; ++call) {
    int one = 1;
    MPI_Allreduce(&one, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  if (rank == 0) printf("%d ranks are here\n", ranks);
  MPI_Finalize();
  return 0;
}
