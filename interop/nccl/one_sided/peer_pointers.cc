// Where a rank reaches the others' parts of a window. A switch's addresses do not exist here: null.
#include "interop/nccl/convert.h"
#include "interop/nccl/failure.h"
#include "interop/nccl/notes.h"
#include "interop/nccl/one_sided/teams.h"

using namespace tutti::nccl;  // NOLINT: this file is the C boundary of that namespace

namespace {

int RankIn(ncclComm_t comm) {
  int rank = 0;
  Check(tuttiCommUserRank(ToTutti(comm), &rank));
  return rank;
}

ncclComm_t CommOf(ncclWindow_t window) {
  CheckGiven("window", window);
  const auto noted = FindWindow(window);
  if (!noted) Refuse(ncclInvalidArgument, "window is not registered on any communicator, or has been deregistered");
  return noted->comm;
}

ncclResult_t NoAddress(ncclWindow_t window, void** outPtr) {
  return Guard(nullptr, [&] {
    CommOf(window);
    CheckGiven("outPtr", outPtr);
    *outPtr = nullptr;
    return ncclSuccess;
  });
}

ncclResult_t NoEndpoint(ncclWindow_t window) {
  return Guard(nullptr, [&]() -> ncclResult_t {
    CommOf(window);
    Refuse(ncclInvalidUsage, "Tutti has no logical endpoints; ncclGetPeerDevicePointer gives addresses on this host");
  });
}

}  // namespace

ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void** outPtr) {
  return Guard(nullptr, [&] {
    const ncclComm_t comm = CommOf(window);
    CheckGiven("outPtr", outPtr);
    return FromTutti(tuttiCommWindowPointer(ToTutti(comm), ToTutti(window), peer, offset, outPtr));
  });
}

ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank, void** outPtr) {
  return Guard(nullptr, [&] {
    const ncclComm_t comm = CommOf(window);
    const ncclTeam lsa = LsaTeam(comm);
    if (lsaRank < 0 || lsaRank >= lsa.nRanks) {
      Refuse(ncclInvalidArgument, "lsaRank is {}; ncclTeamLsa has {} ranks", lsaRank, lsa.nRanks);
    }
    return ncclGetPeerDevicePointer(window, offset, RankIn(comm) - lsa.rank + lsaRank, outPtr);
  });
}

ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t, void** outPtr) {
  return NoAddress(window, outPtr);
}

ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t window, size_t, ncclMultimemHandle_t, void** outPtr) {
  return NoAddress(window, outPtr);
}

ncclResult_t ncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t, int, uint32_t*, size_t*) {
  return NoEndpoint(window);
}

ncclResult_t ncclGetCftDeviceLeInfo(ncclWindow_t window, size_t, int, ncclTeam_t, uint32_t*, size_t*) {
  return NoEndpoint(window);
}

ncclResult_t ncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t, uint32_t*, size_t*) {
  return NoEndpoint(window);
}
