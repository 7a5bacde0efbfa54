// Times MPI_Allreduce in a bare loop, beside calls.py; see there.
//   mpi_calls BYTES CALLS     prints ns a call, on rank 0
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  if (argc != 3 || MPI_Init(&argc, &argv) != MPI_SUCCESS) return 2;
  const int count = (int)(strtoull(argv[1], NULL, 10) / sizeof(double));
  const long calls = strtol(argv[2], NULL, 10);
  int rank = 0;
  double* const in = calloc((size_t)count, sizeof(double));
  double* const out = calloc((size_t)count, sizeof(double));
  if (in == NULL || out == NULL) return 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  double start = 0;
  for (long i = -calls / 10; i < calls; ++i) {
    if (i == 0) {
      MPI_Barrier(MPI_COMM_WORLD);
      start = MPI_Wtime();
    }
    MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  if (rank == 0) printf("%.1f\n", (MPI_Wtime() - start) * 1e9 / (double)calls);
  MPI_Finalize();
  free(in);
  free(out);
  return 0;
}
