// Communicators with fewer or more ranks than the one they are made from.
#include "interop/nccl/config.h"
#include "interop/nccl/convert.h"
#include "interop/nccl/failure.h"
#include "interop/nccl/notes.h"
#include "tutti/extension.h"

using namespace tutti::nccl;  // NOLINT: this file is the C boundary of that namespace

namespace {

int SizeOf(ncclComm_t comm) {
  int size = 0;
  Check(tuttiCommCount(ToTutti(comm), &size));
  return size;
}

// A config for the new communicator; options that are not given are inherited from `parent`.
tuttiConfig_t Inherit(const ncclConfig_t* given, ncclComm_t parent) {
  auto config = ToTutti(given).value_or(tuttiConfig_t(TUTTI_CONFIG_INITIALIZER));
  if (config.blocking == TUTTI_CONFIG_UNDEF_INT && IsNonBlocking(parent)) config.blocking = 0;
  return config;
}

ncclResult_t Made(const ncclComm_t* comm, const tuttiConfig_t& config, tuttiResult_t result) {
  const bool made = (result == tuttiSuccess || result == tuttiInProgress) && *comm != nullptr;
  if (made && config.blocking == 0) NoteNonBlocking(*comm);
  return FromTutti(result);
}

}  // namespace

ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
                            ncclConfig_t* config, int shrinkFlags) {
  return Guard(comm, [&] {
    const int size = SizeOf(comm);
    CheckGiven("excludeRanksList", excludeRanksList);
    if (excludeRanksCount < 1 || excludeRanksCount >= size) {
      Refuse(ncclInvalidArgument, "excludeRanksCount is {}; with {} ranks it must be 1 to {}", excludeRanksCount, size,
             size - 1);
    }
    static_assert(NCCL_SHRINK_DEFAULT == TUTTI_SHRINK_DEFAULT && NCCL_SHRINK_ABORT == TUTTI_SHRINK_ABORT);
    if (shrinkFlags != NCCL_SHRINK_DEFAULT && shrinkFlags != NCCL_SHRINK_ABORT) {
      Refuse(ncclInvalidArgument, "shrinkFlags is {:#x}; it takes NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT",
             shrinkFlags);
    }
    auto ours = Inherit(config, comm);
    // As in NCCL, callers count on the size that they asked for: PyTorch computes its ranks from it.
    const auto result = tuttiCommShrink(ToTutti(comm), excludeRanksList, excludeRanksCount, ToTutti(newcomm), &ours,
                                        shrinkFlags | TUTTI_SHRINK_EXACT);
    return Made(newcomm, ours, result);
  });
}

ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId) {
  return Guard(comm, [&] {
    SizeOf(comm);
    CheckGiven("uniqueId", uniqueId);
    const auto result = ncclGetUniqueId(uniqueId);
    if (result == ncclSuccess) NoteGrowth(comm, *uniqueId);
    return result;
  });
}

ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank, ncclComm_t* newcomm,
                          ncclConfig_t* config) {
  const tutti::CallsFrom caller;
  return Guard(comm, [&] {
    CheckGiven("newcomm", newcomm);
    if (comm == nullptr) {
      CheckGiven("uniqueId", uniqueId);
      return ncclCommInitRankConfig(newcomm, nRanks, *uniqueId, rank, config);
    }
    SizeOf(comm);
    if (rank != -1) {
      Refuse(ncclInvalidArgument, "rank is {}; an existing rank of comm keeps its rank and must pass -1", rank);
    }
    auto ours = Inherit(config, comm);
    auto id = TakeGrowth(comm);
    if (uniqueId != nullptr) id = *uniqueId;
    const auto given = id ? ToTutti(*id) : tuttiUniqueId{};
    const auto result = tuttiCommGrow(ToTutti(comm), nRanks, id ? &given : nullptr, rank, ToTutti(newcomm), &ours);
    return Made(newcomm, ours, result);
  });
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags) {
  static_assert(NCCL_REVOKE_DEFAULT == TUTTI_REVOKE_DEFAULT);
  return FromTutti(tuttiCommRevoke(ToTutti(comm), revokeFlags));
}
