#include "interop/mpi/tutti_mpi.h"

#include <climits>

#include "interop/mpi/tutti_mpi_module.h"

namespace {

tuttiResult_t FromMpi(int code) { return code == MPI_SUCCESS ? tuttiSuccess : tuttiSystemError; }

// Rank 0's message to the others: an id, or that there is none.
struct Announcement {
  tuttiUniqueId id;
  tuttiResult_t result;
};

tuttiResult_t Init() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) return tuttiSuccess;
  int provided = 0;
  // A caller may use another thread than the one it started with, but only one at a time.
  return FromMpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided));
}

int Rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int Ranks() {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

tuttiResult_t Broadcast(void* data, size_t bytes, int root) {
  if (bytes > INT_MAX) return tuttiInvalidArgument;
  return FromMpi(MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, root, MPI_COMM_WORLD));
}

tuttiResult_t CommInit(tuttiComm_t* comm, tuttiConfig_t* config) {
  return tuttiCommInitMPI(comm, MPI_COMM_WORLD, config);
}

tuttiResult_t Finalize() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0 ? tuttiSuccess : FromMpi(MPI_Finalize());
}

}  // namespace

extern "C" tuttiResult_t tuttiCommInitMPI(tuttiComm_t* comm, MPI_Comm mpi, tuttiConfig_t* config) {
  if (comm == nullptr || mpi == MPI_COMM_NULL) return tuttiInvalidArgument;
  *comm = nullptr;
  int rank = 0;
  int ranks = 0;
  if (MPI_Comm_rank(mpi, &rank) != MPI_SUCCESS || MPI_Comm_size(mpi, &ranks) != MPI_SUCCESS) return tuttiSystemError;
  Announcement announcement{};
  if (rank == 0) announcement.result = tuttiGetUniqueId(&announcement.id);
  if (MPI_Bcast(&announcement, sizeof announcement, MPI_BYTE, 0, mpi) != MPI_SUCCESS) return tuttiSystemError;
  if (announcement.result != tuttiSuccess) return announcement.result;
  return tuttiCommInitRankConfig(comm, ranks, announcement.id, rank, config);
}

extern "C" const tuttiMpiModule_t* tuttiMpiModule(void) {
  static const tuttiMpiModule_t kModule = {
      TUTTI_MPI_MODULE_VERSION, TUTTI_MPI_NAME, Init, Rank, Ranks, Broadcast, CommInit, Finalize};
  return &kModule;
}
