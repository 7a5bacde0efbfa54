// What the collectives share: whether a call runs over Tutti, and how its end is told to MPI's user.
//
// Thread-safety: as MPI's collectives.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>

#include "interop/pmpi/communicators.h"
#include "interop/pmpi/constants.h"
#include "interop/pmpi/datatypes.h"

namespace tutti::pmpi {

// A call that may run over Tutti.
struct Call {
  const Below& mpi;
  MPI_Comm comm;
  Communicator* communicator = nullptr;
  tuttiComm_t tutti = nullptr;  // null: MPI shall do it

  explicit operator bool() const { return tutti != nullptr; }
  std::size_t rank() const { return static_cast<std::size_t>(communicator->rank()); }
  std::size_t ranks() const { return communicator->ranks(); }
  bool HasRank(int root) const { return root >= 0 && static_cast<std::size_t>(root) < ranks(); }
  bool IsRoot(int root) const { return communicator->rank() == root; }
};

// Without a look at what the call sends. `communicator` is null where MPI has to report an error, or is not running.
inline Call Begin(const Below& mpi, MPI_Comm comm) { return {mpi, comm, CommunicatorOf(mpi, comm)}; }

// Asks for the communicator of Tutti, and counts. REQUIRES: every rank of the communicator comes here in this call, or
// none; call.communicator is not null.
inline void Choose(Call& call, Collective which, bool has_data, bool computable = true) {
  auto way = Way::tutti;
  if (!has_data) {
    way = Way::no_data;
  } else if (!computable) {
    way = Way::arithmetic;
  } else {
    call.tutti = call.communicator->Tutti();
    if (call.tutti == nullptr) way = Way::communicator;
  }
  call.communicator->counts().Add(which, way);
}

// 0 for a negative count, which MPI has to report.
template <typename Count>
std::size_t Positive(Count count) {
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

// Bytes of `count` elements; 0 if MPI has to report an error.
template <typename Count>
std::size_t BytesOf(Count count, const Datatype* type) {
  return type != nullptr ? Positive(count) * type->bytes : 0;
}

// Raises an error on the communicator with this sentence as its text, and prints it. Returns what the call returns if
// the user's handler does.
[[gnu::cold]] int Fail(const Call& call, const char* sentence);

// Runs body(), which returns Tutti's result or throws.
template <typename Body>
int Conclude(const Call& call, Body&& body) noexcept {
  try {
    const tuttiResult_t result = body();
    if (result == tuttiSuccess) [[likely]]
      return MPI_SUCCESS;
    return Fail(call, tuttiGetLastError(call.tutti));
  } catch (const std::exception& error) {
    return Fail(call, error.what());
  }
}

inline bool InPlace(const void* buffer) { return buffer == MPI_IN_PLACE; }

inline const std::byte* At(const void* data, std::ptrdiff_t bytes) {
  return static_cast<const std::byte*>(data) + bytes;
}
inline std::byte* At(void* data, std::ptrdiff_t bytes) { return static_cast<std::byte*>(data) + bytes; }

}  // namespace tutti::pmpi
