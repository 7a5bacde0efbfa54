// Functions without a counterpart in Tutti: refused, with the reason.
#include "interop/nccl/failure.h"
#include "interop/nccl/one_sided/device_api_types.h"

using namespace tutti::nccl;  // NOLINT: this file is the C boundary of that namespace

namespace {

// The remaining arguments of the caller are ignored.
ncclResult_t Unsupported(ncclComm_t comm, const char* name, const char* reason) {
  return Guard(comm, [&]() -> ncclResult_t { Refuse(ncclInvalidUsage, "{}: {}", name, reason); });
}

constexpr auto* kDeviceApi = "Tutti cannot be called from inside kernels; there is no device communicator";

}  // namespace

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t*, ncclDevComm_t*) {
  return Unsupported(comm, "ncclDevCommCreate", kDeviceApi);
}

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t*) {
  return Unsupported(comm, "ncclDevCommDestroy", kDeviceApi);
}

// The sizes of what a device communicator would contain.
ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t, int, ncclLsaBarrierHandle_t*, ncclDevResourceRequirements_t*) {
  return Unsupported(nullptr, "ncclLsaBarrierCreateRequirement", kDeviceApi);
}

ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t, int, ncclGinBarrierHandle_t*,
                                             ncclDevResourceRequirements_t*) {
  return Unsupported(comm, "ncclGinBarrierCreateRequirement", kDeviceApi);
}

ncclResult_t ncclGinOutboxCreateRequirement(int, int, void*, ncclDevResourceRequirements_t*) {
  return Unsupported(nullptr, "ncclGinOutboxCreateRequirement", kDeviceApi);
}

ncclResult_t ncclGinInboxA2ACreateRequirement(ncclTeam_t, int, int, void*, ncclDevResourceRequirements_t*) {
  return Unsupported(nullptr, "ncclGinInboxA2ACreateRequirement", kDeviceApi);
}

ncclResult_t ncclLLA2ACreateRequirement(int, int, ncclLLA2AHandle_t*, ncclDevResourceRequirements_t*) {
  return Unsupported(nullptr, "ncclLLA2ACreateRequirement", kDeviceApi);
}

// A pure function: slots of 8 bytes.
int ncclLLA2ACalcSlots(int maxElts, int maxEltSize) {
  constexpr int kSlotBytes = 8;
  return maxElts * ((maxEltSize + kSlotBytes - 1) / kSlotBytes);
}

ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t* config) {
  return Guard(nullptr, [&]() -> ncclResult_t {
    CheckGiven("config", config);
    if (config->magic != NCCL_API_MAGIC || config->size < offsetof(ncclEncryptionConfig_t, psk)) {
      Refuse(ncclInvalidArgument, "config was not initialised with NCCL_ENCRYPTION_CONFIG_INITIALIZER (size {})",
             config->size);
    }
    if (config->mode == NCCL_ENCRYPTION_MODE_NONE) return ncclSuccess;
    if (config->mode != NCCL_ENCRYPTION_MODE_PSK) {
      Refuse(ncclInvalidArgument, "config.mode is {}; it takes {} and {}", config->mode,
             static_cast<int>(NCCL_ENCRYPTION_MODE_NONE), static_cast<int>(NCCL_ENCRYPTION_MODE_PSK));
    }
    Refuse(ncclInvalidUsage,
           "ncclSetEncryption: Tutti takes no key from the program; set TUTTI_DATA_PROTECTION=encrypt, which encrypts "
           "data between hosts over TCP with keys of the job's own");
  });
}
