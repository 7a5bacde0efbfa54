// Calls that concern the library rather than a communicator.
#include "interop/nccl/convert.h"
#include "interop/nccl/environment/debug_log.h"
#include "interop/nccl/failure.h"
#include "interop/nccl/version.h"

using namespace tutti::nccl;  // NOLINT: this file is the C boundary of that namespace

ncclResult_t ncclGetVersion(int* version) {
  return Guard(nullptr, [&] {
    CheckGiven("version", version);
    *version = Version();
    return ncclSuccess;
  });
}

const char* ncclGetErrorString(ncclResult_t result) { return tuttiGetErrorString(static_cast<tuttiResult_t>(result)); }

const char* ncclGetLastError(ncclComm_t comm) { return LastFailure(comm); }

void ncclResetDebugInit() { DebugLog::Get().Reset(); }
