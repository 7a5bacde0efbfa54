// Converts NCCL's types to Tutti's. Tutti uses NCCL's numbers, so a conversion is a cast; this file proves it for each.
// An ncclComm_t is the tuttiComm_t itself, so Tutti also recognises destroyed ones.
//
// Thread-safety: pure functions.
#pragma once

#include "interop/nccl/nccl.h"
#include "tutti/tutti.h"

namespace tutti::nccl {

static_assert(int{ncclInt8} == int{tuttiInt8} && int{ncclUint8} == int{tuttiUint8});
static_assert(int{ncclInt32} == int{tuttiInt32} && int{ncclUint32} == int{tuttiUint32});
static_assert(int{ncclInt64} == int{tuttiInt64} && int{ncclUint64} == int{tuttiUint64});
static_assert(int{ncclFloat16} == int{tuttiFloat16} && int{ncclBfloat16} == int{tuttiBfloat16});
static_assert(int{ncclFloat32} == int{tuttiFloat32} && int{ncclFloat64} == int{tuttiFloat64});
static_assert(int{ncclFloat8e4m3} == int{tuttiFloat8e4m3} && int{ncclFloat8e5m2} == int{tuttiFloat8e5m2});
static_assert(int{ncclNumTypes} <= int{tuttiNumTypes});
static_assert(int{ncclSum} == int{tuttiSum} && int{ncclProd} == int{tuttiProd} && int{ncclMax} == int{tuttiMax});
static_assert(int{ncclMin} == int{tuttiMin} && int{ncclAvg} == int{tuttiAvg} && int{ncclNumOps} == int{tuttiNumOps});
static_assert(int{ncclScalarDevice} == int{tuttiScalarDevice});
static_assert(int{ncclScalarHostImmediate} == int{tuttiScalarHostImmediate});
static_assert(int{ncclSuccess} == int{tuttiSuccess} && int{ncclUnhandledCudaError} == int{tuttiUnhandledCudaError});
static_assert(int{ncclSystemError} == int{tuttiSystemError} && int{ncclInternalError} == int{tuttiInternalError});
static_assert(int{ncclInvalidArgument} == int{tuttiInvalidArgument});
static_assert(int{ncclInvalidUsage} == int{tuttiInvalidUsage} && int{ncclRemoteError} == int{tuttiRemoteError});
static_assert(int{ncclInProgress} == int{tuttiInProgress});
static_assert(sizeof(ncclUniqueId) == sizeof(tuttiUniqueId) && NCCL_SPLIT_NOCOLOR == TUTTI_SPLIT_NOCOLOR);

inline tuttiComm_t ToTutti(ncclComm_t comm) { return reinterpret_cast<tuttiComm_t>(comm); }
inline tuttiComm_t* ToTutti(ncclComm_t* comm) { return reinterpret_cast<tuttiComm_t*>(comm); }
inline ncclComm_t ToNccl(tuttiComm_t comm) { return reinterpret_cast<ncclComm_t>(comm); }
inline tuttiWindow_t ToTutti(ncclWindow_t window) { return reinterpret_cast<tuttiWindow_t>(window); }
// Numbers from ncclNumTypes on are none of NCCL's types, so that Tutti must not take them for its own further ones.
inline tuttiDataType_t ToTutti(ncclDataType_t type) {
  return int{type} >= int{ncclNumTypes} ? tuttiNumTypes : static_cast<tuttiDataType_t>(type);
}
inline tuttiRedOp_t ToTutti(ncclRedOp_t op) { return static_cast<tuttiRedOp_t>(op); }
inline tuttiScalarResidence_t ToTutti(ncclScalarResidence_t where) {
  return static_cast<tuttiScalarResidence_t>(where);
}
inline tuttiUniqueId ToTutti(const ncclUniqueId& id) { return __builtin_bit_cast(tuttiUniqueId, id); }

// The code alone, for a reported result that is not this call's own.
ncclResult_t CodeOf(tuttiResult_t result) noexcept;

}  // namespace tutti::nccl
