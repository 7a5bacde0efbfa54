/* Tutti: collective communication with an NCCL-shaped C API.
 *
 * Porting from NCCL is a search-and-replace of `nccl` by `tutti`, and of `<nccl.h>` by `<tutti/tutti.h>`. Every function
 * below that NCCL has takes the same arguments in the same order and returns the same codes. Buffers are ordinary host
 * memory (malloc, mmap, stack) or, on a communicator with a CUDA device, memory that this device can access
 * (cudaMalloc, managed, pinned). Both buffers of a call must be of the same kind.
 *
 * Words used throughout
 *   rank, nranks   this process's (or thread's) place in the communicator, 0 .. nranks-1, and the number of ranks.
 *   count          a number of ELEMENTS of `datatype`, never of bytes. Zero is legal: the call only keeps the order.
 *   in place       the input and the output are the same memory; each collective says where.
 *   stream         a tuttiStream_t orders calls and makes them asynchronous. Host memory: a stream made by
 *                  tuttiStreamCreate, or null, which runs the call in this thread and returns when this rank's part is
 *                  complete. Device memory: a cudaStream_t, which may be capturing a graph; null is CUDA's default
 *                  stream.
 *
 * Errors        Every function returns a tuttiResult_t. tuttiGetLastError() gives the full message: argument, rank,
 *               host, process, operation and sequence number. No function aborts or writes to stdout.
 *               After tuttiRemoteError, tuttiSystemError, tuttiInternalError or tuttiTimeoutError, and after
 *               tuttiInvalidUsage for calls that do not match, a communicator has failed. It still takes its getters,
 *               Dump, Revoke, Shrink, Finalize, Abort and Destroy; docs/lifecycles.md has all calls. The code
 *               tuttiInvalidArgument for a call's own arguments leaves it alive; that call has sent nothing.
 * Threads       Different communicators may be used from different threads at the same time. Calls on one
 *               communicator may come from any thread, one at a time; a second one waits for the first.
 *               tuttiCommAbort, tuttiCommGetAsyncError and the getters may be called at any time from any thread.
 *               Finalize, Destroy and Abort may run at once: one of them frees, and each returns. A call on a
 *               communicator that was, or is being, freed returns tuttiInvalidArgument. docs/lifecycles.md lists
 *               which calls are legal when.
 *               Groups and the last error of a call without a communicator belong to the calling thread.
 * Order         All ranks of a communicator call the same collectives in the same order. A rank that does not is
 *               reported on every rank, naming both calls. Calls that several threads make on one stream are ordered by
 *               when they return; this order must be the same on all ranks. Calls of one thread run in the order in
 *               which it makes them, also if some of them are on streams, or on several: a call waits for earlier
 *               ones on its communicator; puts and signals wait for no tuttiWaitSignal. This holds for control calls
 *               (split, shrink, windows, ...), too. Programs without a cycle of such waits do not deadlock:
 *               docs/lifecycles.md, "A legal program". (The work of CUDA streams is ordered by CUDA's rules alone.)
 * Processes     A communicator or stream belongs to the process that made it. In a child of fork() every call on it
 *               returns tuttiInvalidUsage; the child may make its own communicators and streams. A process may exit
 *               while they are alive; its peers detect that. Peers on the same host do not detect that a rank calls
 *               exec(), and wait for the operation's timeout, so destroy or abort first. dlclose() does not unload
 *               the library.
 * Signals       The library installs no signal handler and changes no mask; waits resume after EINTR. No function is
 *               async-signal-safe. Helper threads block all signals.
 */
#ifndef TUTTI_TUTTI_H_
#define TUTTI_TUTTI_H_

#include <stddef.h>
#include <stdint.h>

#define TUTTI_MAJOR 0
#define TUTTI_MINOR 2
#define TUTTI_PATCH 0
/* Encoded as in NCCL: 10000 * major + 100 * minor + patch. */
#define TUTTI_VERSION_CODE (TUTTI_MAJOR * 10000 + TUTTI_MINOR * 100 + TUTTI_PATCH)

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

/* Callers may pass any int as an enumeration. The library refuses it; in C++ it must not be undefined behaviour. */
#ifdef __cplusplus
#define TUTTI_ENUM enum : int
#else
#define TUTTI_ENUM enum
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------- types -- */

typedef struct tuttiComm* tuttiComm_t;     /* a communicator, as one rank sees it */
typedef void* tuttiStream_t;               /* from tuttiStreamCreate, or a cudaStream_t; NULL: see above */
typedef struct tuttiWindow* tuttiWindow_t; /* memory registered by all ranks together */

/* Names one job-wide rendezvous and carries its secret; pass it to the other ranks over any private channel. Where
 * TUTTI_SECRET is set, joining takes both, and the channel may be open. */
#define TUTTI_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[TUTTI_UNIQUE_ID_BYTES];
} tuttiUniqueId;

typedef TUTTI_ENUM {
  tuttiSuccess = 0,
  tuttiUnhandledCudaError = 1,
  tuttiSystemError = 2,     /* the operating system refused something */
  tuttiInternalError = 3,   /* a fault of this library */
  tuttiInvalidArgument = 4, /* an argument is wrong on its own */
  tuttiInvalidUsage = 5,    /* the call does not fit the state, or the ranks' calls do not fit each other */
  tuttiRemoteError = 6,     /* another rank died, aborted or failed */
  tuttiInProgress = 7,      /* a non-blocking communicator is still working */
  tuttiTimeoutError = 8,    /* no progress within the time allowed */
  tuttiNumResults = 9
} tuttiResult_t;

typedef TUTTI_ENUM{tuttiInt8 = 0,        tuttiChar = 0,    tuttiUint8 = 1,    tuttiInt32 = 2,   tuttiInt = 2,
                   tuttiUint32 = 3,      tuttiInt64 = 4,   tuttiUint64 = 5,   tuttiFloat16 = 6, tuttiHalf = 6,
                   tuttiFloat32 = 7,     tuttiFloat = 7,   tuttiFloat64 = 8,  tuttiDouble = 8,  tuttiBfloat16 = 9,
                   tuttiFloat8e4m3 = 10, /* OCP E4M3: no infinity, one NaN pattern per sign */
                   tuttiFloat8e5m2 = 11, /* OCP E5M2 */
                   tuttiInt16 = 12,      tuttiUint16 = 13, tuttiNumTypes = 14} tuttiDataType_t;

/* Reduction operators; docs/numerics.md says what each does with NaN, -0, overflow and rounding. */
typedef TUTTI_ENUM {
  tuttiSum = 0,
  tuttiProd = 1,
  tuttiMax = 2,
  tuttiMin = 3,
  tuttiAvg = 4, /* the sum divided by nranks; integers divide towards zero */
  tuttiNumOps = 5,
  tuttiMaxRedOp = 0x7fffffff
} tuttiRedOp_t;

typedef TUTTI_ENUM {
  tuttiScalarDevice = 0,       /* *scalar is read when the collective runs */
  tuttiScalarHostImmediate = 1 /* *scalar is read now */
} tuttiScalarResidence_t;

/* ---------------------------------------------------------------------------------------------- library-wide -- */

/* *version = TUTTI_VERSION_CODE of the library that is loaded. */
TUTTI_API tuttiResult_t tuttiGetVersion(int* version);
/* A constant phrase for any code, known or not; never NULL. */
TUTTI_API const char* tuttiGetErrorString(tuttiResult_t result);
/* The full message of the last failure on `comm`, or in this thread if comm is NULL; "" if there was none. Valid until
 * the next call on the communicator (or in this thread). */
TUTTI_API const char* tuttiGetLastError(tuttiComm_t comm);
/* The TUTTI_* settings of this process, by index: *name and *value as text (for TUTTI_SECRET only whether it is set),
 * for index 0, 1, ... until tuttiInvalidArgument. The strings live as long as the process. */
TUTTI_API tuttiResult_t tuttiGetSetting(int index, const char** name, const char** value);

/* ---------------------------------------------------------------------------------------------- communicators -- */

#define TUTTI_CONFIG_UNDEF_INT INT32_MIN
#define TUTTI_CONFIG_UNDEF_PTR NULL
#define TUTTI_DEVICE_NONE -1

/* How to make a communicator. Start from TUTTI_CONFIG_INITIALIZER, then set fields; an undefined field takes the
 * TUTTI_* environment setting, or the default. `size` versions the struct: the library reads no further than that. */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;             /* 1 (default): calls return when done. 0: they return tuttiInProgress; poll
                               tuttiCommGetAsyncError */
  int channels;             /* parallel shares of a message, 1..32; default: chosen by the library */
  int threads;              /* host threads per rank that move data, 1..16; default: chosen */
  int deterministic;        /* 1: results do not depend on size, channels or algorithm (see docs/numerics.md) */
  int initTimeoutMs;        /* how long to wait for all ranks to join; 0: for ever; default 120,000 */
  int operationTimeoutMs;   /* how long an operation may make no progress; 0: for ever; default 600,000 */
  const char* algorithm;    /* "ring", "double_binary_tree", "direct", ...; default: the selector's choice */
  const char* name;         /* used in messages, logs and traces; copied */
  int splitShare;           /* accepted for NCCL's sake; has no effect */
  int unused;               /* was padding, so callers may have left any value in it */
  int device;               /* CUDA device of this rank's device buffers; TUTTI_DEVICE_NONE: host memory only; default:
                               that of the thread's current CUDA context, if it has one */
  int unused2;              /* was padding, too */
  int minChannels;          /* where the library chooses channels: at least so many, 1..32; */
  int maxChannels;          /* and at most so many, 1..1024. On GPUs a channel takes a thread block (CTA) or more */
} tuttiConfig_t;

#define TUTTI_CONFIG_MAGIC 0x74757474u
#define TUTTI_CONFIG_INITIALIZER                                                                                 \
  {                                                                                                              \
    sizeof(tuttiConfig_t), TUTTI_CONFIG_MAGIC, TUTTI_VERSION_CODE, TUTTI_CONFIG_UNDEF_INT,                       \
        TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT,          \
        TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_PTR, TUTTI_CONFIG_UNDEF_PTR, TUTTI_CONFIG_UNDEF_INT,          \
        TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT,          \
        TUTTI_CONFIG_UNDEF_INT                                                                                   \
  }

/* Makes a rendezvous: opens the port at which the ranks find each other; this process serves it until every rank has
 * joined. Address: TUTTI_SOCKET_IFNAME and TUTTI_SOCKET_FAMILY, or TUTTI_COMM_ID=host:port. */
TUTTI_API tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* id);
/* Joins: returns when all `nranks` ranks have called it with the same id, or after the init timeout. Inside a group,
 * several ranks of one process may join from one thread. *comm is set at once, by one atomic store, so that another
 * thread may abort a waiting join; if a blocking join fails, *comm becomes NULL again. */
TUTTI_API tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int nranks, tuttiUniqueId id, int rank);
/* config may be NULL. All ranks must agree on the fields that shape plans (channels, algorithm, deterministic). */
TUTTI_API tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t* comm, int nranks, tuttiUniqueId id, int rank,
                                                tuttiConfig_t* config);
/* Joins by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (as torchrun sets them), or by srun's or mpirun's variables;
 * TUTTI_SECRET keys the handshake, and must be set where the ranks meet off loopback. Without any of them: one rank. */
TUTTI_API tuttiResult_t tuttiCommInitEnv(tuttiComm_t* comm, tuttiConfig_t* config);
/* All ranks in one process: fills comms[0..ndev-1]. If CUDA is in use, rank i has device devlist[i]; if devlist is
 * NULL, ranks take the existing devices in turn. */
TUTTI_API tuttiResult_t tuttiCommInitAll(tuttiComm_t* comms, int ndev, const int* devlist);
/* Collective over comm. Ranks with equal color >= 0 form a new communicator, ordered by key, then by old rank. Several
 * splits of comm, in a group or non-blocking, run in call order, as do tuttiCommGrow and window calls.
 * TUTTI_SPLIT_NOCOLOR: take part, get *newcomm = NULL. config may be NULL: inherit. */
#define TUTTI_SPLIT_NOCOLOR -1
TUTTI_API tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int color, int key, tuttiComm_t* newcomm,
                                       tuttiConfig_t* config);
/* Collective over the surviving ranks of comm, except those in excludeRanks, which do not call and which all callers
 * must name alike (NULL and 0: none). The callers agree on which ranks are gone and form a new communicator, in the
 * order of their old ranks. comm may have failed or been revoked; it is unchanged and still has to be destroyed. The
 * init timeout limits the wait for a living rank that does not call; the error then names that rank
 * (tuttiTimeoutError). config may be NULL: inherit. TUTTI_SHRINK_ABORT: first ends what runs on comm, as
 * tuttiCommRevoke does. */
#define TUTTI_SHRINK_DEFAULT 0x00
#define TUTTI_SHRINK_ABORT 0x01
TUTTI_API tuttiResult_t tuttiCommShrink(tuttiComm_t comm, const int* excludeRanks, int excludeCount,
                                        tuttiComm_t* newcomm, tuttiConfig_t* config, int shrinkFlags);
/* Collective over the ranks of comm and new ones: makes a communicator of `nranks`, in which the ranks of comm keep
 * theirs. One rank of comm makes `id` with tuttiGetUniqueId and passes it; the others of comm pass NULL. `rank` is
 * ignored on ranks of comm. New ranks pass comm NULL, the id and their rank, as with tuttiCommInitRankConfig. */
TUTTI_API tuttiResult_t tuttiCommGrow(tuttiComm_t comm, int nranks, const tuttiUniqueId* id, int rank,
                                      tuttiComm_t* newcomm, tuttiConfig_t* config);
/* Permanently stops everything on comm here and, with tuttiRemoteError, what waits for this rank on others, without
 * freeing it: afterwards comm can be shrunk, queried and destroyed. May be called while another thread is inside a call
 * on comm. Flags: TUTTI_REVOKE_DEFAULT. */
#define TUTTI_REVOKE_DEFAULT 0x00
TUTTI_API tuttiResult_t tuttiCommRevoke(tuttiComm_t comm, int revokeFlags);
/* Waits for everything this rank has queued, on all streams, and for calls inside comm in other threads. Once it has
 * begun, only getters, Destroy and Abort are legal. tuttiInvalidArgument if comm is aborted while it waits. A
 * non-blocking communicator returns tuttiInProgress, and tells the end by tuttiCommGetAsyncError. */
TUTTI_API tuttiResult_t tuttiCommFinalize(tuttiComm_t comm);
/* Finalizes if needed and frees. Local: waits for other ranks only where this rank's own calls do. */
TUTTI_API tuttiResult_t tuttiCommDestroy(tuttiComm_t comm);
/* Stops everything running on comm here and, with tuttiRemoteError, what waits for this rank on others, and frees. May be
 * called while another thread is in, or enters, a call on comm: that call returns first. Work queued on streams that has
 * not begun is skipped and gives its stream tuttiRemoteError. Does not wait for other communicators. Always returns. */
TUTTI_API tuttiResult_t tuttiCommAbort(tuttiComm_t comm);
/* Collective over comm: waits until all ranks' calls have ended, then releases GPU memory that only running calls need.
 * Until tuttiCommResume, calls on comm are refused (tuttiInvalidUsage); getters, deregistrations, Finalize, Destroy, Abort
 * and Revoke work. Windows, registered buffers and captured graphs stay valid, but no graph may run meanwhile. Flags:
 * TUTTI_SUSPEND_MEM. Without a device: no effect. */
#define TUTTI_SUSPEND_MEM 0x01
TUTTI_API tuttiResult_t tuttiCommSuspend(tuttiComm_t comm, int flags);
/* Collective over comm: allocates and connects that memory again. If a rank cannot allocate it, all ranks get that rank's
 * error, comm stays suspended, and Resume may be called again. */
TUTTI_API tuttiResult_t tuttiCommResume(tuttiComm_t comm);
/* *value: bytes of GPU memory that comm has allocated, or (GpuMemSuspended) 1 if they are released, else 0. */
typedef TUTTI_ENUM {
  tuttiStatGpuMemSuspend = 0, /* what Suspend releases, or has released */
  tuttiStatGpuMemSuspended = 1,
  tuttiStatGpuMemPersist = 2, /* what it does not */
  tuttiStatGpuMemTotal = 3    /* what is allocated now */
} tuttiCommMemStat_t;
TUTTI_API tuttiResult_t tuttiCommMemStats(tuttiComm_t comm, tuttiCommMemStat_t stat, uint64_t* value);
/* *asyncError: tuttiSuccess, tuttiInProgress (non-blocking work pending), or the failure since. A failure that leaves comm
 * usable is told once. */
TUTTI_API tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* asyncError);
TUTTI_API tuttiResult_t tuttiCommCount(const tuttiComm_t comm, int* count);
TUTTI_API tuttiResult_t tuttiCommUserRank(const tuttiComm_t comm, int* rank);
/* hosts[r], for each rank: the number of its host. Hosts are numbered from 0, in the order of their first ranks. */
TUTTI_API tuttiResult_t tuttiCommHosts(const tuttiComm_t comm, int* hosts);
/* *device: the CUDA device of this rank, or TUTTI_DEVICE_NONE if comm takes host memory only. */
TUTTI_API tuttiResult_t tuttiCommCuDevice(const tuttiComm_t comm, int* device);

/* ------------------------------------------------------------------------------------------------- what was done -- */

typedef TUTTI_ENUM {
  tuttiTransportSelf = 0, /* copies inside one rank */
  tuttiTransportShm = 1,  /* through shared slots */
  tuttiTransportDirect = 2, /* straight from the peer's memory: same process, or a registered window */
  tuttiTransportCma = 3,  /* straight from the peer's memory by process_vm_readv */
  tuttiTransportP2p = 4,  /* between GPUs */
  tuttiTransportTcp = 5,  /* to another host, through sockets */
  tuttiTransportVerbs = 6, /* to another host, by RDMA */
  tuttiTransportUcx = 7,   /* to another host, by whatever UCX finds there */
  tuttiTransportPlugin = 8, /* to another host, by a net plug-in of NCCL */
  tuttiNumTransports = 9
} tuttiTransport_t;

typedef TUTTI_ENUM {
  tuttiAlgorithmNone = 0, /* send/recv, and communicators of one rank */
  tuttiAlgorithmDirect = 1,
  tuttiAlgorithmTwoShot = 2,
  tuttiAlgorithmRing = 3,
  tuttiAlgorithmDoubleBinaryTree = 4,
  tuttiAlgorithmRecursive = 5, /* recursive halving and doubling */
  tuttiAlgorithmBruck = 6,
  tuttiAlgorithmBinomial = 7,
  tuttiAlgorithmGrouped = 8, /* the first ranks of groups reduce, all ranks read them */
  tuttiAlgorithmTwoLevel = 9,  /* inside nodes, rings between them, inside again */
  tuttiAlgorithmTwoLevelTree = 10, /* the same with double binary trees between nodes */
  tuttiAlgorithmParameterServer = 11, /* one rank serves all: for comparison, as is the next; only if forced */
  tuttiAlgorithmAllToAllBroadcast = 12, /* every rank sends everything to every rank */
  tuttiAlgorithmProgram = 13, /* a schedule from a file */
  tuttiAlgorithmRecursiveDoubling = 14, /* partners exchange all the data they have */
  tuttiAlgorithmPeerMemory = 15, /* each rank moves a part of all ranks' buffers: GPU memory in one process */
  tuttiAlgorithmNvls = 16, /* a switch between GPUs adds and multiplies data (NVLink SHARP) */
  tuttiNumAlgorithms = 17
} tuttiAlgorithm_t;

/* Room for future transports and algorithms without changing the layout. */
#define TUTTI_COUNTED_TRANSPORTS 16
#define TUTTI_COUNTED_ALGORITHMS 32
/* Since the communicator was made. Set `size` to sizeof(tuttiCounters_t) before the call. Bytes are payload. */
typedef struct {
  size_t size;
  uint64_t operations;
  uint64_t operationsByAlgorithm[TUTTI_COUNTED_ALGORITHMS];
  uint64_t bytesSent[TUTTI_COUNTED_TRANSPORTS][TUTTI_COUNTED_ALGORITHMS];
  uint64_t bytesReceived[TUTTI_COUNTED_TRANSPORTS][TUTTI_COUNTED_ALGORITHMS];
  uint64_t waitSpins;  /* times a wait polled again at once */
  uint64_t waitYields; /* times it gave the core away */
  uint64_t waitSleeps; /* times it slept until a peer rang */
  uint64_t waitLate;   /* sleeps that no ring ended although there was work, 50 ms each; should be 0 */
  uint64_t waitLostSlices; /* at least so often, another thread then kept the core for 0.5 ms or more: it computes */
} tuttiCounters_t;
TUTTI_API tuttiResult_t tuttiCommGetCounters(tuttiComm_t comm, tuttiCounters_t* counters);

/* How the last operation on comm was carried out, as one line for a person, e.g.
 * "all_reduce 1048576 B: two_shot, 1 channel, chunk 65536 B, bulk; shm, 4 ranks (size <= 4 MiB)". Writes at most
 * `size` bytes with the terminating zero. */
TUTTI_API tuttiResult_t tuttiCommDescribeLastOperation(tuttiComm_t comm, char* text, size_t size);
/* Writes this rank's last operations, finished or not, as JSON into the file `path`, with %r for the rank and %p for
 * the process. Legal at any time, from any thread, even while another waits in an operation, and on a failed
 * communicator. `tutti diagnose` interprets the files of all ranks. (On failure TUTTI_DUMP does the same.) */
TUTTI_API tuttiResult_t tuttiCommDump(tuttiComm_t comm, const char* path);
/* The algorithm's short name: "direct", "two_shot", "ring", ...; never NULL. */
TUTTI_API const char* tuttiAlgorithmName(tuttiAlgorithm_t algorithm);
TUTTI_API tuttiResult_t tuttiCommGetLastAlgorithm(tuttiComm_t comm, tuttiAlgorithm_t* algorithm);

/* ------------------------------------------------------------------------------------------------- collectives --
 * Every pointer must be aligned to the datatype's size. Input and output must be identical where "in place" says so,
 * or not overlap at all. Buffers of count 0 may be NULL. */

/* recvbuff[i] = op over ranks of sendbuff[i]; count elements each. In place: sendbuff == recvbuff. */
TUTTI_API tuttiResult_t tuttiAllReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                                       tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream);
/* As all-reduce, but only root's recvbuff is written (others' may be NULL). */
TUTTI_API tuttiResult_t tuttiReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                                    tuttiRedOp_t op, int root, tuttiComm_t comm, tuttiStream_t stream);
/* Every recvbuff gets root's sendbuff (others' may be NULL). In place on the root: sendbuff == recvbuff. */
TUTTI_API tuttiResult_t tuttiBroadcast(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                                       int root, tuttiComm_t comm, tuttiStream_t stream);
/* Broadcast in one buffer. */
TUTTI_API tuttiResult_t tuttiBcast(void* buff, size_t count, tuttiDataType_t datatype, int root, tuttiComm_t comm,
                                   tuttiStream_t stream);
/* sendbuff: nranks * recvcount elements; rank r gets block r of the reduction. In place: recvbuff == sendbuff +
 * rank * recvcount. */
TUTTI_API tuttiResult_t tuttiReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                           tuttiDataType_t datatype, tuttiRedOp_t op, tuttiComm_t comm,
                                           tuttiStream_t stream);
/* recvbuff: nranks * sendcount elements, block r from rank r. In place: sendbuff == recvbuff + rank * sendcount. */
TUTTI_API tuttiResult_t tuttiAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                       tuttiDataType_t datatype, tuttiComm_t comm, tuttiStream_t stream);
/* Both buffers: nranks * count elements; block j of rank i's sendbuff becomes block i of rank j's recvbuff. In place:
 * sendbuff == recvbuff. */
TUTTI_API tuttiResult_t tuttiAlltoAll(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                                      tuttiComm_t comm, tuttiStream_t stream);
/* root's recvbuff: nranks * count elements, block r from rank r. In place on the root: sendbuff == recvbuff + root *
 * count. */
TUTTI_API tuttiResult_t tuttiGather(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                                    int root, tuttiComm_t comm, tuttiStream_t stream);
/* root's sendbuff: nranks * count elements, block r goes to rank r. In place on the root: recvbuff == sendbuff + root *
 * count. */
TUTTI_API tuttiResult_t tuttiScatter(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                                     int root, tuttiComm_t comm, tuttiStream_t stream);
/* No rank returns (on a stream: passes) before every rank has arrived. */
TUTTI_API tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream);

/* The v-forms: counts and displacements are arrays of nranks, in elements; displacements count from the buffer's start
 * and blocks must not overlap in the output. The arrays are read before the call returns.
 * AllGatherV and ReduceScatterV: `recvcounts` must be equal on all ranks. AlltoAllV: sendcounts[j] on rank i must equal
 * recvcounts[i] on rank j; a disagreement is reported on both. */
TUTTI_API tuttiResult_t tuttiAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                        const size_t* recvcounts, const size_t* recvdispls, tuttiDataType_t datatype,
                                        tuttiComm_t comm, tuttiStream_t stream);
/* sendbuff: the blocks back to back, sum(recvcounts) elements; rank r gets recvcounts[r] elements. In place: recvbuff
 * == sendbuff + sum(recvcounts[0..rank-1]). */
TUTTI_API tuttiResult_t tuttiReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* recvcounts,
                                            tuttiDataType_t datatype, tuttiRedOp_t op, tuttiComm_t comm,
                                            tuttiStream_t stream);
/* Not in place. */
TUTTI_API tuttiResult_t tuttiAlltoAllV(const void* sendbuff, const size_t* sendcounts, const size_t* senddispls,
                                       void* recvbuff, const size_t* recvcounts, const size_t* recvdispls,
                                       tuttiDataType_t datatype, tuttiComm_t comm, tuttiStream_t stream);

/* The tensor forms: blocks lie along a dimension, whatever its place in memory, and elements are copied without
 * packing. Element (i0, i1, ...) lies at buffer + i0 * strides[0] + i1 * strides[1] + ..., in elements. Ranks may have
 * different strides; blocks must have one shape on all ranks. No two elements of a received tensor may share a place.
 * The layouts are read before the call returns. */
#define TUTTI_MAX_DIMS 8
typedef struct tuttiTensorLayout {
  int ndims; /* 1 to TUTTI_MAX_DIMS */
  size_t shape[TUTTI_MAX_DIMS];
  size_t strides[TUTTI_MAX_DIMS];
} tuttiTensorLayout_t;
/* recvlayout has nranks times sendlayout's size along `dim`; rank r's tensor becomes its r-th part there. In place:
 * sendbuff is this rank's part of recvbuff, with the same strides. */
TUTTI_API tuttiResult_t tuttiAllGatherTensor(const void* sendbuff, const tuttiTensorLayout_t* sendlayout,
                                             void* recvbuff, const tuttiTensorLayout_t* recvlayout, int dim,
                                             tuttiDataType_t datatype, tuttiComm_t comm, tuttiStream_t stream);
/* sendlayout has nranks times recvlayout's size along `dim`; rank r gets the sum of all ranks' r-th parts. In place:
 * recvbuff is this rank's part of sendbuff, with the same strides. */
TUTTI_API tuttiResult_t tuttiReduceScatterTensor(const void* sendbuff, const tuttiTensorLayout_t* sendlayout,
                                                 void* recvbuff, const tuttiTensorLayout_t* recvlayout, int dim,
                                                 tuttiDataType_t datatype, tuttiRedOp_t op, tuttiComm_t comm,
                                                 tuttiStream_t stream);
/* Rank r gets the r-th part of sendbuff along `senddim`; data from rank r becomes the r-th part of recvbuff along
 * `recvdim`: [s/n, h] split along 1 and joined along 0 becomes [s, h/n]. Not in place. */
TUTTI_API tuttiResult_t tuttiAlltoAllTensor(const void* sendbuff, const tuttiTensorLayout_t* sendlayout, int senddim,
                                            void* recvbuff, const tuttiTensorLayout_t* recvlayout, int recvdim,
                                            tuttiDataType_t datatype, tuttiComm_t comm, tuttiStream_t stream);

/* Point to point: the k-th send from a to b matches the k-th recv at b from a; counts and types must match. Outside a
 * group each blocks until its data is taken or has come; put interdependent sends and receives in a group. */
TUTTI_API tuttiResult_t tuttiSend(const void* sendbuff, size_t count, tuttiDataType_t datatype, int peer,
                                  tuttiComm_t comm, tuttiStream_t stream);
TUTTI_API tuttiResult_t tuttiRecv(void* recvbuff, size_t count, tuttiDataType_t datatype, int peer, tuttiComm_t comm,
                                  tuttiStream_t stream);

/* Calls between Start and the matching End are collected and run together at End: they progress concurrently, so
 * several communicators of one process, or sends and receives in any order, cannot block each other. Each communicator's
 * calls begin as soon as they can, and a group that waits holds no other communicator. Groups nest. If a call in a group
 * fails, the outermost End runs nothing and returns the call's failure. */
TUTTI_API tuttiResult_t tuttiGroupStart(void);
TUTTI_API tuttiResult_t tuttiGroupEnd(void);
/* Ends a group without running it. *simInfo: the time that its calls would take by the cost model, one after the other
 * on each communicator; the longest of these. Sends, receives and calls that make communicators count nothing. */
typedef struct {
  size_t size; /* TUTTI_SIM_INFO_INITIALIZER sets the first three */
  unsigned int magic;
  unsigned int version;
  float estimatedTime; /* us */
} tuttiSimInfo_t;
#define TUTTI_SIM_INFO_MAGIC 0x74685283u
#define TUTTI_SIM_INFO_INITIALIZER \
  { sizeof(tuttiSimInfo_t), TUTTI_SIM_INFO_MAGIC, TUTTI_VERSION_CODE, -1.0f }
TUTTI_API tuttiResult_t tuttiGroupSimulateEnd(tuttiSimInfo_t* simInfo);

/* op' (x0, x1, ...) = sum of scalar * xi. The scalar is one element of `datatype`, and the operator works only with
 * that datatype. Local to this communicator and rank: ranks may scale differently. */
TUTTI_API tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t* op, void* scalar, tuttiDataType_t datatype,
                                                  tuttiScalarResidence_t residence, tuttiComm_t comm);
TUTTI_API tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm);

/* ------------------------------------------------------------------------------------------------------- memory -- */

/* Page-aligned, zeroed memory that peers can map once it is registered: device memory in a thread with a current CUDA
 * context, else host memory. */
TUTTI_API tuttiResult_t tuttiMemAlloc(void** ptr, size_t size);
TUTTI_API tuttiResult_t tuttiMemFree(void* ptr);
/* Local, as in NCCL: declares to this communicator that a buffer will be reused. GPU memory (cudaMalloc's,
 * tuttiMemAlloc's) becomes a window once every other rank has made a call since; from then on peers read it in place.
 * Host memory is registered with the devices that carry slots to other hosts (verbs), which then read it in place;
 * inside a host no registration is needed. Memory that cannot be registered (more than 64 GPU buffers, managed memory)
 * works as before. The memory must stay allocated until it is deregistered. */
TUTTI_API tuttiResult_t tuttiCommRegister(const tuttiComm_t comm, void* buff, size_t size, void** handle);
TUTTI_API tuttiResult_t tuttiCommDeregister(const tuttiComm_t comm, void* handle);
/* Collective over comm: every other rank of this host maps each rank's [buff, buff + size), which lies in one allocation
 * of tuttiMemAlloc or, on devices, cudaMalloc; or in GPU memory that the program has mapped (cuMemMap), in one or several
 * pieces whose makers allow their export as file descriptors. Collectives read and write it in place. Flags, the same on
 * all ranks: TUTTI_WIN_SYMMETRIC promises that where a call names memory of the window, all ranks name the same offset in
 * it, and are in place together. With TUTTI_COPY_ENGINE=1, copy engines then carry long all-gathers and all-to-alls. */
#define TUTTI_WIN_DEFAULT 0
#define TUTTI_WIN_SYMMETRIC 1
TUTTI_API tuttiResult_t tuttiCommWindowRegister(tuttiComm_t comm, void* buff, size_t size, tuttiWindow_t* win,
                                                int winFlags);
/* Local, when this rank's calls on the memory have ended. Other ranks may use their parts until they deregister, too; so
 * this rank's memory is free when all have. */
TUTTI_API tuttiResult_t tuttiCommWindowDeregister(tuttiComm_t comm, tuttiWindow_t win);
/* *ptr: where this rank can read and write the byte at `offset` in peer's part of the window; NULL if it cannot,
 * because peer is on another host. The program orders its accesses itself. Valid until the window is deregistered. */
TUTTI_API tuttiResult_t tuttiCommWindowPointer(tuttiComm_t comm, tuttiWindow_t win, int peer, size_t offset,
                                               void** ptr);

/* One-sided calls, to ranks of this host, on host memory (a communicator without a device) or GPU memory. `peer` takes
 * no part: it learns of a put by waiting for its signal. Each rank counts, for each other rank, the signals of
 * TUTTI_SIGNALS numbers in each of TUTTI_SIGNAL_CONTEXTS contexts. In a group, puts and signals go before waits.
 * Outside one, a put returns (on a stream: is passed) when localbuff may change. `flags`: 0. */
#define TUTTI_SIGNAL_CONTEXTS 4
#define TUTTI_SIGNALS 8
/* Writes count elements to peer's part of the window, `peerWinOffset` bytes from its start, then signals. */
TUTTI_API tuttiResult_t tuttiPutSignal(const void* localbuff, size_t count, tuttiDataType_t datatype, int peer,
                                       tuttiWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                                       unsigned int flags, tuttiComm_t comm, tuttiStream_t stream);
/* Signals after all that this rank's earlier calls on the stream have put. */
TUTTI_API tuttiResult_t tuttiSignal(int peer, int sigIdx, int ctx, unsigned int flags, tuttiComm_t comm,
                                    tuttiStream_t stream);
typedef struct {
  int opCnt;  /* signals to wait for, at least 1 */
  int peer;   /* the rank that sends them */
  int sigIdx;
  int ctx;
} tuttiWaitSignalDesc_t;
/* Waits until all these signals have come, and takes them: the next wait needs others. Fails, naming the peer, if that
 * one dies, leaves or stops. */
TUTTI_API tuttiResult_t tuttiWaitSignal(int nDesc, tuttiWaitSignalDesc_t* signalDescs, tuttiComm_t comm,
                                        tuttiStream_t stream);

/* ------------------------------------------------------------------------------------------------------ streams -- */

/* A host stream: its calls run one after the other, in the order given, in a thread of the stream. */
TUTTI_API tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream);
/* Waits for queued work, then frees. If several threads call it, one succeeds; the other calls, and later ones, return
 * tuttiInvalidArgument. */
TUTTI_API tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream);
/* Waits for the work queued before; returns the first failure since the last synchronise. */
TUTTI_API tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream);
/* tuttiSuccess: idle; tuttiInProgress: busy; else the first failure since the last synchronise. */
TUTTI_API tuttiResult_t tuttiStreamQuery(tuttiStream_t stream);

#ifdef __cplusplus
}
#endif
#endif /* TUTTI_TUTTI_H_ */
