// The CUDA driver, loaded on first use: the library links no CUDA code and runs without CUDA. Declares only what is
// used, and only what the driver API's reference documents.
//
// Thread-safety: immutable once loaded; the driver's own functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace tutti::cuda_transport {

// Types of the driver's ABI.
using CuResult = int;
using CuDevice = int;
using CuContext = struct CUctx_st*;
using CuStream = struct CUstream_st*;  // a cudaStream_t is the same
using CuEvent = struct CUevent_st*;
using CuModule = struct CUmod_st*;
using CuFunction = struct CUfunc_st*;
using CuGraphNode = struct CUgraphNode_st*;
using CuPointer = std::uint64_t;
using CuMemory = std::uint64_t;  // CUmemGenericAllocationHandle: memory without an address, or a multicast object
struct CuIpcHandle {
  char bytes[64];
};
struct CuUuid {
  char bytes[16];
};

struct CuLocation {
  int type, id;
};
struct CuMemoryProperties {  // CUmemAllocationProp
  int type;
  int handle_types;
  CuLocation location;
  void* windows;
  std::uint8_t compression, rdma, other_flags[6];
};
struct CuAccess {  // CUmemAccessDesc
  CuLocation location;
  int flags;
};
struct CuMulticastProperties {
  unsigned devices;
  std::size_t bytes;
  std::uint64_t handle_types, flags;
};

inline constexpr CuResult kCuSuccess = 0;
inline constexpr CuResult kCuErrorOutOfMemory = 2;
inline constexpr CuResult kCuErrorInvalidDevice = 101;
inline constexpr CuResult kCuErrorInvalidHandle = 400;
inline constexpr CuResult kCuErrorNotReady = 600;
inline constexpr CuResult kCuErrorDeviceUnavailable = 46;
inline constexpr CuResult kCuErrorNoBinaryForGpu = 209;
inline constexpr CuResult kCuErrorPeerAccessAlreadyEnabled = 704;

// CUdevice_attribute
inline constexpr int kCuMemoryClockKhz = 36, kCuMemoryBusBits = 37, kCuMultiprocessors = 16, kCuPciBus = 33,
                     kCuPciDevice = 34, kCuPciDomain = 50, kCuMajor = 75, kCuMinor = 76, kCuCooperativeLaunch = 95,
                     kCuVirtualMemory = 102, kCuFileHandles = 103, kCuVirtualMemoryRdma = 110, kCuMemoryPools = 115,
                     kCuWritesOrdering = 118, kCuDmaBuf = 124, kCuMulticast = 132;
// CUGPUDirectRDMAWritesOrdering, CUmemRangeHandleType
inline constexpr int kCuOrderedForOwner = 100, kCuDmaBufFile = 1;
// CUdevice_P2PAttribute
inline constexpr int kCuP2pAllAtomics = 3;
// CUpointer_attribute
inline constexpr int kCuPointerMemoryType = 2, kCuPointerIsManaged = 8, kCuPointerDeviceOrdinal = 9,
                     kCuPointerIsIpcCapable = 10;
// CUmemorytype
inline constexpr unsigned kCuMemoryDevice = 2;
inline constexpr unsigned kCuStreamNonBlocking = 1;
// The handle that means each calling thread's own stream.
inline const CuStream kCuStreamPerThread = reinterpret_cast<CuStream>(2);
inline constexpr unsigned kCuEventDisableTiming = 2;
inline constexpr unsigned kCuHostRegisterPortable = 1, kCuHostRegisterDeviceMap = 2;
inline constexpr unsigned kCuHostAllocPortable = 1, kCuHostAllocDeviceMap = 2;
inline constexpr unsigned kCuIpcLazyPeerAccess = 1;
inline constexpr int kCuCaptureActive = 1;       // CUstreamCaptureStatus
inline constexpr int kCuCaptureModeRelaxed = 2;  // CUstreamCaptureMode
inline constexpr unsigned kCuSetCaptureDependencies = 1;
// CUmemAllocationType, CUmemAllocationHandleType, CUmemLocationType, CUmemAccess_flags; of CUmemAllocationGranularity_flags
// and CUmulticastGranularity_flags
inline constexpr int kCuPinnedMemory = 1, kCuFileDescriptor = 1, kCuOnDevice = 1, kCuReadWrite = 3;
inline constexpr int kCuLeastGranularity = 0, kCuBestGranularity = 1;

struct CudaDriver {
  CuResult (*cuInit)(unsigned flags);
  CuResult (*cuDriverGetVersion)(int* version);
  CuResult (*cuGetErrorString)(CuResult error, const char** text);
  CuResult (*cuDeviceGet)(CuDevice* device, int ordinal);
  CuResult (*cuDeviceGetCount)(int* count);
  CuResult (*cuDeviceGetUuid)(CuUuid* uuid, CuDevice device);
  CuResult (*cuDeviceGetAttribute)(int* value, int attribute, CuDevice device);
  CuResult (*cuDeviceCanAccessPeer)(int* can, CuDevice device, CuDevice peer);
  CuResult (*cuDeviceGetP2PAttribute)(int* value, int attribute, CuDevice device, CuDevice peer);
  CuResult (*cuDevicePrimaryCtxRetain)(CuContext* context, CuDevice device);
  CuResult (*cuDevicePrimaryCtxRelease)(CuDevice device);
  CuResult (*cuCtxGetCurrent)(CuContext* context);
  CuResult (*cuCtxGetDevice)(CuDevice* device);
  CuResult (*cuCtxPushCurrent)(CuContext context);
  CuResult (*cuCtxPopCurrent)(CuContext* context);
  CuResult (*cuCtxSynchronize)();
  CuResult (*cuCtxEnablePeerAccess)(CuContext peer, unsigned flags);
  CuResult (*cuModuleLoadData)(CuModule* module, const void* image);
  CuResult (*cuModuleUnload)(CuModule module);
  CuResult (*cuModuleGetFunction)(CuFunction* function, CuModule module, const char* name);
  CuResult (*cuOccupancyMaxActiveBlocksPerMultiprocessor)(int* blocks, CuFunction function, int threads,
                                                          std::size_t shared_bytes);
  CuResult (*cuLaunchKernel)(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned shared_bytes, CuStream stream,
                             void** parameters, void** extra);
  CuResult (*cuLaunchCooperativeKernel)(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                        CuStream stream, void** parameters);
  CuResult (*cuMemAlloc)(CuPointer* pointer, std::size_t bytes);
  CuResult (*cuMemFree)(CuPointer pointer);
  CuResult (*cuMemAllocAsync)(CuPointer* pointer, std::size_t bytes, CuStream stream);
  CuResult (*cuMemFreeAsync)(CuPointer pointer, CuStream stream);
  CuResult (*cuMemGetAddressRange)(CuPointer* base, std::size_t* bytes, CuPointer pointer);
  CuResult (*cuMemGetInfo)(std::size_t* free, std::size_t* total);
  CuResult (*cuMemHostAlloc)(void** pointer, std::size_t bytes, unsigned flags);
  CuResult (*cuMemFreeHost)(void* pointer);
  CuResult (*cuMemHostRegister)(void* pointer, std::size_t bytes, unsigned flags);
  CuResult (*cuMemHostUnregister)(void* pointer);
  CuResult (*cuMemHostGetDevicePointer)(CuPointer* device, void* pointer, unsigned flags);
  CuResult (*cuMemcpyAsync)(CuPointer to, CuPointer from, std::size_t bytes, CuStream stream);
  CuResult (*cuMemsetD8Async)(CuPointer to, unsigned char value, std::size_t bytes, CuStream stream);
  CuResult (*cuPointerGetAttributes)(unsigned count, int* attributes, void** values, CuPointer pointer);
  CuResult (*cuIpcGetMemHandle)(CuIpcHandle* handle, CuPointer pointer);
  CuResult (*cuIpcOpenMemHandle)(CuPointer* pointer, CuIpcHandle handle, unsigned flags);
  CuResult (*cuIpcCloseMemHandle)(CuPointer pointer);
  CuResult (*cuStreamCreate)(CuStream* stream, unsigned flags);
  CuResult (*cuStreamDestroy)(CuStream stream);
  CuResult (*cuStreamSynchronize)(CuStream stream);
  CuResult (*cuStreamWaitEvent)(CuStream stream, CuEvent event, unsigned flags);
  CuResult (*cuStreamGetCaptureInfo)(CuStream stream, int* status, std::uint64_t* id, void* graph,
                                     const CuGraphNode** nodes, std::size_t* count);
  CuResult (*cuStreamUpdateCaptureDependencies)(CuStream stream, CuGraphNode* nodes, std::size_t count, unsigned flags);
  CuResult (*cuThreadExchangeStreamCaptureMode)(int* mode);
  CuResult (*cuEventCreate)(CuEvent* event, unsigned flags);
  CuResult (*cuEventDestroy)(CuEvent event);
  CuResult (*cuEventRecord)(CuEvent event, CuStream stream);
  CuResult (*cuEventQuery)(CuEvent event);

  // Memory that is mapped to addresses by hand (mapped_memory.h).
  CuResult (*cuMemCreate)(CuMemory* memory, std::size_t bytes, const CuMemoryProperties* properties,
                          std::uint64_t flags);
  CuResult (*cuMemRelease)(CuMemory memory);
  CuResult (*cuMemAddressReserve)(CuPointer* pointer, std::size_t bytes, std::size_t alignment, CuPointer at,
                                  std::uint64_t flags);
  CuResult (*cuMemAddressFree)(CuPointer pointer, std::size_t bytes);
  CuResult (*cuMemMap)(CuPointer pointer, std::size_t bytes, std::size_t offset, CuMemory memory, std::uint64_t flags);
  CuResult (*cuMemUnmap)(CuPointer pointer, std::size_t bytes);
  CuResult (*cuMemSetAccess)(CuPointer pointer, std::size_t bytes, const CuAccess* access, std::size_t count);
  CuResult (*cuMemExportToShareableHandle)(void* handle, CuMemory memory, int type, std::uint64_t flags);
  CuResult (*cuMemImportFromShareableHandle)(CuMemory* memory, void* handle, int type);
  CuResult (*cuMemRetainAllocationHandle)(CuMemory* memory, void* pointer);
  CuResult (*cuMemGetAllocationPropertiesFromHandle)(CuMemoryProperties* properties, CuMemory memory);
  CuResult (*cuMemGetAllocationGranularity)(std::size_t* bytes, const CuMemoryProperties* properties, int option);

  // What NICs need. Null in drivers before CUDA 11.7.
  CuResult (*cuMemGetHandleForAddressRange)(void* handle, CuPointer pointer, std::size_t bytes, int type,
                                            std::uint64_t flags);

  // Null in drivers before CUDA 12.1, which have no multicast.
  CuResult (*cuMulticastCreate)(CuMemory* object, const CuMulticastProperties* properties);
  CuResult (*cuMulticastAddDevice)(CuMemory object, CuDevice device);
  CuResult (*cuMulticastBindMem)(CuMemory object, std::size_t offset, CuMemory memory, std::size_t memory_offset,
                                 std::size_t bytes, std::uint64_t flags);
  CuResult (*cuMulticastUnbind)(CuMemory object, CuDevice device, std::size_t offset, std::size_t bytes);
  CuResult (*cuMulticastGetGranularity)(std::size_t* bytes, const CuMulticastProperties* properties, int option);
  bool multicast;  // it has these

  int version;  // of its CUDA, as 1000 * major + 10 * minor

  // "cuMemAlloc: out of memory". Throws tuttiUnhandledCudaError unless `result` is success.
  void Check(CuResult result, const char* call) const;
  // Likewise, but only if the result means that this process's context is lost for ever.
  void CheckContext(CuResult result, const char* call) const;
};

// Why the driver is older than version `needed`, or "".
std::string WhyTooOld(const CudaDriver& driver, int needed);

// The driver of this machine, initialised; null where there is none, with why in *why (which may be null).
const CudaDriver* LoadedCudaDriver(std::string* why = nullptr);

}  // namespace tutti::cuda_transport
