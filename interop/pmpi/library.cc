// MPI's beginning and end.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "interop/pmpi/communicators.h"
#include "interop/pmpi/constants.h"
#include "interop/pmpi/report.h"

using namespace tutti::pmpi;  // NOLINT: this file is the C boundary of that namespace

namespace {

bool WantsReport() {
  const char* const wish = std::getenv("TUTTI_MPI_REPORT");
  return wish != nullptr && std::string_view(wish) == "1";
}

}  // namespace

extern "C" {

// To refuse another MPI's program here, before it has done anything.
TUTTI_API int MPI_Init(int* argc, char*** argv) { return TheBelow().Init(argc, argv); }

TUTTI_API int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return TheBelow().Init_thread(argc, argv, required, provided);
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
