// Makes, splits, ends and queries communicators.
#include "interop/nccl/config.h"
#include "interop/nccl/convert.h"
#include "interop/nccl/failure.h"
#include "interop/nccl/notes.h"
#include "tutti/extension.h"

using namespace tutti::nccl;  // NOLINT: this file is the C boundary of that namespace

namespace {

// NCCL succeeds when it ends a null communicator, such as that of a rank that a split left out.
ncclResult_t End(ncclComm_t comm, tuttiResult_t (*end)(tuttiComm_t)) {
  if (comm == nullptr) return ncclSuccess;
  return Guard(comm, [&] {
    const auto result = FromTutti(end(ToTutti(comm)));
    if (result == ncclSuccess) Forget(comm);
    return result;
  });
}

bool WillNotBlock(const std::optional<tuttiConfig_t>& config, ncclComm_t parent) {
  if (!config || config->blocking == TUTTI_CONFIG_UNDEF_INT) return parent != nullptr && IsNonBlocking(parent);
  return config->blocking == 0;
}

// A non-blocking communicator exists, and may be destroyed, before `made` is known, so note it at once.
ncclResult_t Made(ncclComm_t* comm, bool non_blocking, tuttiResult_t result) {
  if (non_blocking && (result == tuttiSuccess || result == tuttiInProgress) && *comm != nullptr) NoteNonBlocking(*comm);
  return FromTutti(result);
}

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  return FromTutti(tuttiGetUniqueId(reinterpret_cast<tuttiUniqueId*>(uniqueId)));
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return FromTutti(tuttiCommInitRank(ToTutti(comm), nranks, ToTutti(commId), rank));
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config) {
  return Guard(nullptr, [&] {
    auto ours = ToTutti(config);
    const auto id = ToTutti(commId);
    const auto result = tuttiCommInitRankConfig(ToTutti(comm), nranks, id, rank, OrNull(ours));
    return Made(comm, WillNotBlock(ours, nullptr), result);
  });
}

// Several ids only spread the meeting over several roots, which Tutti does not need: it uses the first.
ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
                                      ncclConfig_t* config) {
  return Guard(nullptr, [&] {
    CheckGiven("commIds", commIds);
    if (nId < 1 || nId > nranks) Refuse(ncclInvalidArgument, "nId is {}; it takes 1 to nranks, {}", nId, nranks);
    return ncclCommInitRankConfig(newcomm, nranks, commIds[0], myrank, config);
  });
}

ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return FromTutti(tuttiCommInitAll(ToTutti(comm), ndev, devlist));
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config) {
  const tutti::CallsFrom caller;
  return Guard(comm, [&] {
    auto ours = ToTutti(config);
    const auto result = tuttiCommSplit(ToTutti(comm), color, key, ToTutti(newcomm), OrNull(ours));
    return Made(newcomm, WillNotBlock(ours, comm), result);
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) { return FromTutti(tuttiCommFinalize(ToTutti(comm))); }

ncclResult_t ncclCommDestroy(ncclComm_t comm) { return End(comm, tuttiCommDestroy); }

ncclResult_t ncclCommAbort(ncclComm_t comm) { return End(comm, tuttiCommAbort); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return Guard(comm, [&] {
    CheckGiven("asyncError", asyncError);
    auto state = tuttiSuccess;
    const auto result = FromTutti(tuttiCommGetAsyncError(ToTutti(comm), &state));
    if (result != ncclSuccess) return result;
    *asyncError = CodeOf(state);
    // The sentence is now the last one of the process, too, because programs ask for it without naming comm.
    if (state != tuttiSuccess && state != tuttiInProgress) {
      Remember(comm, *asyncError, tuttiGetLastError(ToTutti(comm)));
    }
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return FromTutti(tuttiCommCount(ToTutti(comm), count));
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return FromTutti(tuttiCommUserRank(ToTutti(comm), rank));
}

// Programs pass the result to cudaSetDevice or count from it, and NCCL has no value for "none". Without devices the
// first ordinal is unambiguous, so return that.
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  const auto result = FromTutti(tuttiCommCuDevice(ToTutti(comm), device));
  if (result == ncclSuccess && *device == TUTTI_DEVICE_NONE) *device = 0;
  return result;
}
