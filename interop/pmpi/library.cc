// MPI's beginning and end.
#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "interop/pmpi/communicators.h"
#include "interop/pmpi/constants.h"
#include "interop/pmpi/report.h"
#include "interop/pmpi/settings.h"

using namespace tutti::pmpi;  // NOLINT: this file is the C boundary of that namespace

namespace {

// MPI has begun, if it could.
int Begun(int result) {
  if (result != MPI_SUCCESS) return result;
  const auto& mpi = TheBelow();
  int rank = 0, ranks = 0;
  mpi.Comm_rank(TheConstants().comm_world, &rank);
  mpi.Comm_size(TheConstants().comm_world, &ranks);
  if (rank != 0) return result;
  std::fputs(UnknownSettingValues().c_str(), stderr);
  const auto here = fmt::format("tutti-mpi: {} ranks, on {}; MPI_Finalize reports\n", ranks, mpi.version);
  if (WantsReport()) std::fputs(here.c_str(), stderr);
  return result;
}

}  // namespace

extern "C" {

// To refuse another MPI's program here, before it has done anything.
TUTTI_API int MPI_Init(int* argc, char*** argv) { return Begun(TheBelow().Init(argc, argv)); }

TUTTI_API int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return Begun(TheBelow().Init_thread(argc, argv, required, provided));
}

TUTTI_API int MPI_Finalize(void) {
  const auto& mpi = TheBelow();
  int rank = 0, ranks = 0;
  mpi.Comm_rank(TheConstants().comm_world, &rank);
  mpi.Comm_size(TheConstants().comm_world, &ranks);
  EndCommunicators(mpi);
  if (rank == 0 && WantsReport()) std::fputs(Report(mpi.version, rank, ranks).c_str(), stderr);
  return mpi.Finalize();
}

}  // extern "C"
