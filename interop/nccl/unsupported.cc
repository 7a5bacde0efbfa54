// Functions without a counterpart in Tutti: refused, with the reason.
#include "interop/nccl/failure.h"

using namespace tutti::nccl;  // NOLINT: this file is the C boundary of that namespace

namespace {

// The remaining arguments of the caller are ignored.
ncclResult_t Unsupported(ncclComm_t comm, const char* name, const char* reason) {
  return Guard(comm, [&]() -> ncclResult_t { Refuse(ncclInvalidUsage, "{}: {}", name, reason); });
}

constexpr auto* kOneSided = "Tutti has no one-sided operations; use ncclSend and ncclRecv";
constexpr auto* kDeviceApi = "Tutti cannot be called from inside kernels; there is no device communicator";
constexpr auto* kSuspend = "Tutti does not release a communicator's memory before the communicator is destroyed";

}  // namespace

ncclResult_t ncclCommSuspend(ncclComm_t comm, int) { return Unsupported(comm, "ncclCommSuspend", kSuspend); }

ncclResult_t ncclCommResume(ncclComm_t comm) { return Unsupported(comm, "ncclCommResume", kSuspend); }

ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t, uint64_t*) {
  return Unsupported(comm, "ncclCommMemStats", "Tutti does not count GPU memory per communicator");
}

ncclResult_t ncclPutSignal(const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int, int, unsigned int,
                           ncclComm_t comm, cudaStream_t) {
  return Unsupported(comm, "ncclPutSignal", kOneSided);
}

ncclResult_t ncclSignal(int, int, int, unsigned int, ncclComm_t comm, cudaStream_t) {
  return Unsupported(comm, "ncclSignal", kOneSided);
}

ncclResult_t ncclWaitSignal(int, ncclWaitSignalDesc_t*, ncclComm_t comm, cudaStream_t) {
  return Unsupported(comm, "ncclWaitSignal", kOneSided);
}

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t*, ncclDevComm_t*) {
  return Unsupported(comm, "ncclDevCommCreate", kDeviceApi);
}

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t*) {
  return Unsupported(comm, "ncclDevCommDestroy", kDeviceApi);
}
