// The MPI below: the functions of the MPI that the program runs on, found when the program first calls MPI. This library
// links no MPI, so that one file serves every MPI of an ABI, and so that programs without MPI (mpirun, a shell) that
// inherit LD_PRELOAD are left alone.
//
// Thread-safety: any thread.
#pragma once

#include <mpi.h>

#include <atomic>
#include <string>

#include "tutti/tutti.h"

namespace tutti::pmpi {

// Every function of MPI that this library calls; the entry X(Bcast) makes the member Below::Bcast, which is PMPI_Bcast.
// clang-format off
#define TUTTI_PMPI_FUNCTIONS(X)                                                                                      \
  X(Init) X(Init_thread) X(Initialized) X(Finalize) X(Finalized) X(Get_library_version)                             \
  X(Irecv) X(Test) X(Cancel) X(Wait) X(Pack) X(Unpack) X(Add_error_code) X(Add_error_string)                        \
  X(Comm_size) X(Comm_rank) X(Comm_test_inter) X(Comm_group) X(Comm_dup) X(Comm_free) X(Comm_create_keyval)         \
  X(Comm_set_attr) X(Comm_get_attr) X(Comm_call_errhandler) X(Group_translate_ranks) X(Group_free)                  \
  X(Type_create_keyval) X(Type_set_attr) X(Type_get_attr) X(Type_size_x) X(Type_get_extent_x)                       \
  X(Type_get_true_extent_x) X(Type_free) X(Type_get_envelope) X(Type_get_contents) X(Get_version)                   \
  X(Allreduce) X(Reduce) X(Reduce_scatter) X(Reduce_scatter_block) X(Bcast) X(Allgather) X(Allgatherv) X(Gather)    \
  X(Scatter) X(Alltoall) X(Alltoallv) X(Barrier)
// Those with large counts (MPI 4), where the header has them; an MPI may lack them.
#if MPI_VERSION >= 4
#define TUTTI_PMPI_LARGE_FUNCTIONS(X)                                                                                \
  X(Allreduce_c) X(Reduce_c) X(Reduce_scatter_c) X(Reduce_scatter_block_c) X(Bcast_c) X(Allgather_c)                \
  X(Allgatherv_c) X(Gather_c) X(Scatter_c) X(Alltoall_c) X(Alltoallv_c) X(Type_get_envelope_c)                      \
  X(Type_get_contents_c)
#else
#define TUTTI_PMPI_LARGE_FUNCTIONS(X)
#endif
// clang-format on

struct Below {
#define TUTTI_PMPI_MEMBER(name) decltype(&::PMPI_##name) name = nullptr;
  TUTTI_PMPI_FUNCTIONS(TUTTI_PMPI_MEMBER)
  TUTTI_PMPI_LARGE_FUNCTIONS(TUTTI_PMPI_MEMBER)
#undef TUTTI_PMPI_MEMBER

  void* library = nullptr;  // for dlsym
  std::string version;      // the first line of what it says of itself
};

extern std::atomic<const Below*> the_below;  // null: not found yet

// Finds the MPI that `caller`, an address in the code that called MPI, is linked with. If there is none, or if it is not
// of the ABI that this library is built for, ends the process with a sentence on stderr.
const Below& FindBelow(const void* caller);

// REQUIRES: called by the function that the program calls.
[[gnu::always_inline]] inline const Below& TheBelow() {
  const auto* const found = the_below.load(std::memory_order_acquire);
  return found != nullptr ? *found : FindBelow(__builtin_return_address(0));
}

}  // namespace tutti::pmpi
