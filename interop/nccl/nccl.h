/* NCCL's C interface as provided by Tutti's libnccl.so.2: a program written for NCCL, built against this header or
 * NVIDIA's, runs on Tutti. docs/nccl.md describes what each function does here and which ones are refused; terms (rank,
 * count, in place) and the rules for threads, errors and fork() are those of tutti/tutti.h.
 *
 * This header claims NCCL 2.27.7, the last version without functions for use inside kernels, so that programs that
 * check the version do not include nccl_device.h. Later host functions are declared nevertheless.
 *
 * With a CUDA toolkit on the include path the types are CUDA's, and this header includes CUDA's headers as NVIDIA's
 * nccl.h does. Without one it needs no other headers: buffers are then ordinary memory and streams are NULL.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __has_include
#if __has_include(<cuda_runtime.h>)
#define TUTTI_NCCL_HAS_CUDA 1
#endif
#endif

#ifdef TUTTI_NCCL_HAS_CUDA
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#ifdef __cplusplus
#include <cuda_fp8.h>
#endif
#else
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 27
#define NCCL_PATCH 7
#define NCCL_SUFFIX ""
/* Two digits for the minor number since 2.9; one before. */
#define NCCL_VERSION(X, Y, Z) \
  ((X) < 2 || ((X) == 2 && (Y) < 9) ? (X) * 1000 + (Y) * 100 + (Z) : (X) * 10000 + (Y) * 100 + (Z))
/* A plain number, because some programs paste it as a token; a test compares it with the three above. */
#define NCCL_VERSION_CODE 22707

/* Callers may pass any int as an enumeration. The library refuses it, and in C++ it must not be undefined. */
#ifdef __cplusplus
#define TUTTI_NCCL_ENUM enum : int
extern "C" {
#else
#define TUTTI_NCCL_ENUM enum
#endif

/* ---------------------------------------------------------------------------------------------------- types -- */

typedef struct ncclComm* ncclComm_t;
#define NCCL_COMM_NULL NULL
typedef struct ncclWindow_vidmem* ncclWindow_t;

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef TUTTI_NCCL_ENUM {
  ncclSuccess = 0,
  ncclInProgress = 7,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclRemoteError = 6,
  ncclUnhandledCudaError = 1,
  ncclNumResults = 8
} ncclResult_t;

typedef TUTTI_NCCL_ENUM {
  ncclChar = 0,
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt = 2,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclBfloat16 = 9,
  ncclHalf = 6,
  ncclFloat16 = 6,
  ncclFloat = 7,
  ncclFloat32 = 7,
  ncclDouble = 8,
  ncclFloat64 = 8,
  ncclNumTypes = 12
} ncclDataType_t;

typedef TUTTI_NCCL_ENUM {
  ncclSum = 0,
  ncclAvg = 4,
  ncclProd = 1,
  ncclMin = 3,
  ncclMax = 2,
  ncclNumOps = 5, /* from here on: made by ncclRedOpCreatePreMulSum */
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef TUTTI_NCCL_ENUM { ncclScalarHostImmediate = 1, ncclScalarDevice = 0 } ncclScalarResidence_t;

typedef TUTTI_NCCL_ENUM {
  ncclStatGpuMemSuspend = 0,
  ncclStatGpuMemSuspended = 1,
  ncclStatGpuMemPersist = 2,
  ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;

/* ------------------------------------------------------------------------------------ how to make a communicator -- */

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_SPLIT_NOCOLOR -1

#define NCCL_CTA_POLICY_DEFAULT 0
#define NCCL_CTA_POLICY_EFFICIENCY 1
#define NCCL_CTA_POLICY_ZERO 2

/* The struct of 2.27. The library also reads older programs' shorter structs, and the known fields of newer ones.
 * `blocking`, `commName`, `minCTAs` and `maxCTAs` take effect; the others are checked and have no effect. */
typedef struct {
  size_t size; /* NCCL_CONFIG_INITIALIZER sets the first three */
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
} ncclConfig_t;

#define NCCL_API_MAGIC 0xcafebeef
/* Every field in order; only the first three have a value. */
#define NCCL_CONFIG_INITIALIZER                                                                                  \
  {                                                                                                              \
    sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,       \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,              \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,              \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT                                                             \
  }

typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;
} ncclSimInfo_t;
#define NCCL_SIM_INFO_MAGIC 0x74685283
#define NCCL_SIM_INFO_INITIALIZER \
  { sizeof(ncclSimInfo_t), NCCL_SIM_INFO_MAGIC, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT }

/* A vendor's option in the list of an ncclCollConfig_t. Tutti has none, and reads none. */
typedef struct ncclConfigExt {
  struct ncclConfigExt* next;
  struct {
    int vendorId;
    int optionId;
  } key;
  union {
    int i;
    const char* s;
    void* raw;
  } val;
} ncclConfigExt_t;

/* How one collective runs (2.32). Start from NCCL_COLLCONFIG_INITIALIZER. All fields are checked;
 * `launchCompletionEvent` takes effect, the others have none. */
typedef struct {
  size_t size; /* NCCL_COLLCONFIG_INITIALIZER sets the first three */
  unsigned int magic;
  unsigned int version;
  ncclConfigExt_t* ext;
  int minCTAs;
  int maxCTAs;
  int nvlsCTAs;
  int cgaClusterSize;
  const char* algSelection;
  int forceAlgSelection;
  int CTAPolicy;
  uint64_t userProfilerTag;
  cudaEvent_t launchCompletionEvent; /* recorded on the stream before the launch */
} ncclCollConfig_t;
#define NCCL_COLLCONFIG_INITIALIZER                                                                              \
  {                                                                                                              \
    sizeof(ncclCollConfig_t), NCCL_API_MAGIC, NCCL_VERSION(2, 32, 0), NCCL_CONFIG_UNDEF_PTR,                     \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,              \
        NCCL_CONFIG_UNDEF_PTR, 1, NCCL_CONFIG_UNDEF_INT, 0, NCCL_CONFIG_UNDEF_PTR                                \
  }

typedef TUTTI_NCCL_ENUM { NCCL_ENCRYPTION_MODE_NONE = 0, NCCL_ENCRYPTION_MODE_PSK = 1 } ncclEncryptionMode_t;
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int mode;
  const char* psk;
} ncclEncryptionConfig_t;
#define NCCL_ENCRYPTION_CONFIG_INITIALIZER                                                     \
  {                                                                                            \
    sizeof(ncclEncryptionConfig_t), NCCL_API_MAGIC, NCCL_VERSION(2, 32, 0),                    \
        NCCL_ENCRYPTION_MODE_NONE, NCCL_CONFIG_UNDEF_PTR                                       \
  }

/* Flags of ncclCommWindowRegister, ncclCommShrink, ncclCommRevoke and ncclCommSuspend. */
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_GIN_ONLY 0x04
#define NCCL_WIN_CFT_COUNTED 0x08
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00
#define NCCL_SUSPEND_MEM 0x01

typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;

/* Defined in NVIDIA's nccl_device.h, which its users provide. An ncclTeam_t is three ints (ranks, this rank's place,
 * stride in the communicator's ranks), an ncclMultimemHandle_t one pointer. */
typedef struct ncclCommProperties ncclCommProperties_t;
typedef struct ncclDevComm ncclDevComm_t;
typedef struct ncclDevCommRequirements ncclDevCommRequirements_t;
typedef struct ncclDevResourceRequirements ncclDevResourceRequirements_t;
typedef struct ncclTeam ncclTeam_t; /* NVIDIA's header alone declares ncclTeamCft, whose enumeration has no name */
typedef struct ncclMultimemHandle ncclMultimemHandle_t;
typedef struct ncclLsaBarrierHandle ncclLsaBarrierHandle_t;
typedef struct ncclGinBarrierHandle ncclGinBarrierHandle_t;
typedef struct ncclLLA2AHandle ncclLLA2AHandle_t;

typedef struct ncclParamHandle* ncclParamHandle_t;

/* ------------------------------------------------------------------------------------------------- functions --
 * Each has two names: ncclX, which a profiler may intercept, and pncclX, which the profiler then calls. */
#define TUTTI_NCCL_FUNCTION(result, name, arguments)            \
  __attribute__((visibility("default"))) result name arguments; \
  __attribute__((visibility("default"))) result p##name arguments

/* About the library */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetVersion, (int* version));
TUTTI_NCCL_FUNCTION(const char*, ncclGetErrorString, (ncclResult_t result));
TUTTI_NCCL_FUNCTION(const char*, ncclGetLastError, (ncclComm_t comm));
TUTTI_NCCL_FUNCTION(void, ncclResetDebugInit, (void));

/* Making, changing and ending communicators */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetUniqueId, (ncclUniqueId* uniqueId));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommInitRank, (ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommInitRankConfig,
                    (ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommInitRankScalable,
                    (ncclComm_t* newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
                     ncclConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommInitAll, (ncclComm_t* comm, int ndev, const int* devlist));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommSplit,
                    (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommShrink,
                    (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
                     ncclConfig_t* config, int shrinkFlags));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommGetUniqueId, (ncclComm_t comm, ncclUniqueId* uniqueId));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommGrow,
                    (ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank, ncclComm_t* newcomm,
                     ncclConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommFinalize, (ncclComm_t comm));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommDestroy, (ncclComm_t comm));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommAbort, (ncclComm_t comm));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int revokeFlags));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommSuspend, (ncclComm_t comm, int flags));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommResume, (ncclComm_t comm));

/* About a communicator */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* asyncError));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int* count));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int* rank));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int* device));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommQueryProperties, (ncclComm_t comm, ncclCommProperties_t* props));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommMemStats, (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value));

/* Collectives */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclAllReduce,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                     ncclComm_t comm, cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclReduceScatter,
                    (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                     ncclComm_t comm, cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclAllGather,
                    (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
                     cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclAlltoAll,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                     cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclReduce,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                     int root, ncclComm_t comm, cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclBroadcast,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                     ncclComm_t comm, cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclBcast,
                    (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                     cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGather,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                     ncclComm_t comm, cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclScatter,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                     ncclComm_t comm, cudaStream_t stream));

/* The same with a configuration of the call; NULL: none */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclAllReduceConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                     ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclReduceScatterConfig,
                    (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                     ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclAllGatherConfig,
                    (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
                     cudaStream_t stream, const ncclCollConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclAlltoAllConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                     cudaStream_t stream, const ncclCollConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclReduceConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                     int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclBroadcastConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                     ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGatherConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                     ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclScatterConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                     ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config));

/* Between two ranks */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclSend,
                    (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                     cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclRecv,
                    (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                     cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclPutSignal,
                    (const void* localbuff, size_t count, ncclDataType_t datatype, int peer, ncclWindow_t peerWin,
                     size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                     cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclSignal,
                    (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclWaitSignal,
                    (int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm, cudaStream_t stream));

/* Groups of calls */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGroupStart, (void));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGroupEnd, (void));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t* simInfo));

/* User-defined operators */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclRedOpCreatePreMulSum,
                    (ncclRedOp_t* op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
                     ncclComm_t comm));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm));

/* Memory */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclMemAlloc, (void** ptr, size_t size));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclMemFree, (void* ptr));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommRegister, (const ncclComm_t comm, void* buff, size_t size, void** handle));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void* handle));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommWindowRegister,
                    (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclWinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void** outUserPtr));

/* Where this rank reaches other ranks' parts of a window; NULL where it does not */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetPeerDevicePointer,
                    (ncclWindow_t window, size_t offset, int peer, void** outPtr));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetLsaDevicePointer,
                    (ncclWindow_t window, size_t offset, int lsaRank, void** outPtr));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetLsaMultimemDevicePointer,
                    (ncclWindow_t window, size_t offset, void** outPtr));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetMultimemDevicePointer,
                    (ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem, void** outPtr));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetPeerDeviceLeInfo,
                    (ncclWindow_t window, size_t offset, int peerWorld, uint32_t* leId, size_t* leOffset));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetCftDeviceLeInfo,
                    (ncclWindow_t window, size_t offset, int peerCft, ncclTeam_t cftTeam, uint32_t* leId,
                     size_t* leOffset));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetMultimemDeviceLeInfo,
                    (ncclWindow_t window, size_t offset, uint32_t* leId, size_t* leOffset));

/* Teams: all ranks, those of a host, those with the same place on each host */
TUTTI_NCCL_FUNCTION(ncclTeam_t, ncclTeamWorld, (ncclComm_t comm));
TUTTI_NCCL_FUNCTION(ncclTeam_t, ncclTeamLsa, (ncclComm_t comm));
TUTTI_NCCL_FUNCTION(ncclTeam_t, ncclTeamRail, (ncclComm_t comm));
TUTTI_NCCL_FUNCTION(ncclTeam_t, ncclTeamCftMultimem, (ncclComm_t comm));
TUTTI_NCCL_FUNCTION(int, ncclTeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank));
TUTTI_NCCL_FUNCTION(int, ncclTeamRankToLsa, (ncclComm_t comm, ncclTeam_t team, int rank));

/* For use inside kernels */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclDevCommCreate,
                    (ncclComm_t comm, const ncclDevCommRequirements_t* reqs, ncclDevComm_t* outDevComm));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclDevCommDestroy, (ncclComm_t comm, const ncclDevComm_t* devComm));

TUTTI_NCCL_FUNCTION(ncclResult_t, ncclLsaBarrierCreateRequirement,
                    (ncclTeam_t team, int nBarriers, ncclLsaBarrierHandle_t* outHandle,
                     ncclDevResourceRequirements_t* outReq));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGinBarrierCreateRequirement,
                    (ncclComm_t comm, ncclTeam_t team, int nBarriers, ncclGinBarrierHandle_t* outHandle,
                     ncclDevResourceRequirements_t* outReq));
TUTTI_NCCL_FUNCTION(int, ncclLLA2ACalcSlots, (int maxElts, int maxEltSize));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclLLA2ACreateRequirement,
                    (int nBlocks, int nSlots, ncclLLA2AHandle_t* outHandle, ncclDevResourceRequirements_t* outReq));

/* Encryption of the connections between hosts */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclSetEncryption, (const ncclEncryptionConfig_t* config));

/* The settings in force: Tutti's (TUTTI_*) */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamBind, (ncclParamHandle_t* out, const char* key));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGet, (ncclParamHandle_t handle, void* out, int maxLen, int* len));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetStr, (ncclParamHandle_t handle, const char** out));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetI8, (ncclParamHandle_t handle, int8_t* out));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetI16, (ncclParamHandle_t handle, int16_t* out));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetI32, (ncclParamHandle_t handle, int32_t* out));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetI64, (ncclParamHandle_t handle, int64_t* out));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetU8, (ncclParamHandle_t handle, uint8_t* out));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetU16, (ncclParamHandle_t handle, uint16_t* out));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetU32, (ncclParamHandle_t handle, uint32_t* out));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetU64, (ncclParamHandle_t handle, uint64_t* out));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetParameter, (const char* key, const char** value, int* valueLen));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetAllParameterKeys, (const char*** table, int* tableLen));
TUTTI_NCCL_FUNCTION(void, ncclParamDumpAll, (void));

#undef TUTTI_NCCL_FUNCTION
#undef TUTTI_NCCL_ENUM
#undef TUTTI_NCCL_HAS_CUDA

#ifdef __cplusplus
}
#endif
#endif /* NCCL_H_ */
