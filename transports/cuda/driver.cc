#include "transports/cuda/driver.h"

#include <string_view>

#include "base/error.h"
#include "base/shared_library.h"
#include "base/threads/made_once.h"

namespace tutti::cuda_transport {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
// cuDeviceGetUuid_v2 came with CUDA 11.4; everything else that must be there is older.
constexpr int kOldestDriver = 11040;

struct Loaded {
  CudaDriver driver{};
  bool usable = false;
  std::string why;

  Loaded() {
    SharedLibrary library(kLibrary);
    if (!library) {
      why = fmt::format("there is no CUDA driver ({})", library.why());
      return;
    }
    Bind(library);
    if (!library.missing().empty()) {
      why = fmt::format("the CUDA driver is too old: {} has no {}", kLibrary, library.missing());
      return;
    }
    if (const auto result = driver.cuInit(0); result != kCuSuccess) {
      why = fmt::format("the CUDA driver cannot be initialised (cuInit: {})", Phrase(result));
      return;
    }
    driver.cuDriverGetVersion(&driver.version);
    why = WhyTooOld(driver, kOldestDriver);
    if (!why.empty()) return;
    usable = true;
  }

  std::string Phrase(CuResult result) const {
    const char* text = nullptr;
    if (driver.cuGetErrorString(result, &text) != kCuSuccess || text == nullptr) return fmt::format("error {}", result);
    return text;
  }

  void Bind(SharedLibrary& library) {
    const auto bind = [&](auto*& function, const char* name) { library.Find(function, name); };
    // The driver offers all versions of a changed interface side by side; these names select one.
    bind(driver.cuInit, "cuInit");
    bind(driver.cuDriverGetVersion, "cuDriverGetVersion");
    bind(driver.cuGetErrorString, "cuGetErrorString");
    bind(driver.cuDeviceGet, "cuDeviceGet");
    bind(driver.cuDeviceGetCount, "cuDeviceGetCount");
    // The first version gives all instances of a partitioned device (MIG) the device's own.
    bind(driver.cuDeviceGetUuid, "cuDeviceGetUuid_v2");
    bind(driver.cuDeviceGetAttribute, "cuDeviceGetAttribute");
    bind(driver.cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer");
    bind(driver.cuDeviceGetP2PAttribute, "cuDeviceGetP2PAttribute");
    bind(driver.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    bind(driver.cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
    bind(driver.cuCtxGetCurrent, "cuCtxGetCurrent");
    bind(driver.cuCtxGetDevice, "cuCtxGetDevice");
    bind(driver.cuCtxPushCurrent, "cuCtxPushCurrent_v2");
    bind(driver.cuCtxPopCurrent, "cuCtxPopCurrent_v2");
    bind(driver.cuCtxSynchronize, "cuCtxSynchronize");
    bind(driver.cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess");
    bind(driver.cuModuleLoadData, "cuModuleLoadData");
    bind(driver.cuModuleUnload, "cuModuleUnload");
    bind(driver.cuModuleGetFunction, "cuModuleGetFunction");
    bind(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    bind(driver.cuLaunchKernel, "cuLaunchKernel");
    bind(driver.cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel");
    bind(driver.cuMemAlloc, "cuMemAlloc_v2");
    bind(driver.cuMemAllocAsync, "cuMemAllocAsync");
    bind(driver.cuMemFreeAsync, "cuMemFreeAsync");
    bind(driver.cuMemFree, "cuMemFree_v2");
    bind(driver.cuMemGetAddressRange, "cuMemGetAddressRange_v2");
    bind(driver.cuMemGetInfo, "cuMemGetInfo_v2");
    bind(driver.cuMemHostAlloc, "cuMemHostAlloc");
    bind(driver.cuMemFreeHost, "cuMemFreeHost");
    bind(driver.cuMemHostRegister, "cuMemHostRegister_v2");
    bind(driver.cuMemHostUnregister, "cuMemHostUnregister");
    bind(driver.cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2");
    bind(driver.cuMemcpyAsync, "cuMemcpyAsync");
    bind(driver.cuMemsetD8Async, "cuMemsetD8Async");
    bind(driver.cuPointerGetAttributes, "cuPointerGetAttributes");
    bind(driver.cuIpcGetMemHandle, "cuIpcGetMemHandle");
    bind(driver.cuIpcOpenMemHandle, "cuIpcOpenMemHandle_v2");
    bind(driver.cuIpcCloseMemHandle, "cuIpcCloseMemHandle");
    bind(driver.cuStreamCreate, "cuStreamCreate");
    bind(driver.cuStreamDestroy, "cuStreamDestroy_v2");
    bind(driver.cuStreamSynchronize, "cuStreamSynchronize");
    bind(driver.cuStreamWaitEvent, "cuStreamWaitEvent");
    // Without the edges' kinds, which matter to programs of dependent launches only.
    bind(driver.cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2");
    bind(driver.cuStreamUpdateCaptureDependencies, "cuStreamUpdateCaptureDependencies");
    bind(driver.cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode");
    bind(driver.cuEventCreate, "cuEventCreate");
    bind(driver.cuEventDestroy, "cuEventDestroy_v2");
    bind(driver.cuEventRecord, "cuEventRecord");
    bind(driver.cuEventQuery, "cuEventQuery");
    bind(driver.cuMemCreate, "cuMemCreate");
    bind(driver.cuMemRelease, "cuMemRelease");
    bind(driver.cuMemAddressReserve, "cuMemAddressReserve");
    bind(driver.cuMemAddressFree, "cuMemAddressFree");
    bind(driver.cuMemMap, "cuMemMap");
    bind(driver.cuMemUnmap, "cuMemUnmap");
    bind(driver.cuMemSetAccess, "cuMemSetAccess");
    bind(driver.cuMemExportToShareableHandle, "cuMemExportToShareableHandle");
    bind(driver.cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle");
    bind(driver.cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle");
    bind(driver.cuMemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle");
    bind(driver.cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity");
    BindNewer();
  }

  void BindNewer() {
    SharedLibrary library(kLibrary);
    const auto bind = [&](auto*& function, const char* name) { library.Find(function, name); };
    bind(driver.cuMulticastCreate, "cuMulticastCreate");
    bind(driver.cuMulticastAddDevice, "cuMulticastAddDevice");
    bind(driver.cuMulticastBindMem, "cuMulticastBindMem");
    bind(driver.cuMulticastUnbind, "cuMulticastUnbind");
    bind(driver.cuMulticastGetGranularity, "cuMulticastGetGranularity");
    driver.multicast = library.missing().empty();
    bind(driver.cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange");
  }
};

const Loaded& TheDriver() {
  static constinit MadeOnce<const Loaded> loaded;
  return loaded.Get([] { return std::make_unique<const Loaded>(); });
}

// After one of these, each later call returns it, too (cuda.h).
bool MeansLostContext(CuResult result) {
  constexpr CuResult kEccUncorrectable = 214, kIllegalAddress = 700, kLaunchTimeout = 702, kAssert = 710,
                     kHardwareStackError = 714, kLaunchFailed = 719;
  switch (result) {
    case kEccUncorrectable:
    case kIllegalAddress:
    case kLaunchTimeout:
    case kAssert: return true;
    // Illegal instruction, misaligned address, invalid address space and invalid program counter lie between.
    default: return result >= kHardwareStackError && result <= kLaunchFailed;
  }
}

}  // namespace

std::string WhyTooOld(const CudaDriver& driver, int needed) {
  if (driver.version >= needed) return "";
  constexpr int kMajor = 1000, kMinor = 10;
  return fmt::format("the CUDA driver supports CUDA {}.{}, but {}.{} or later is needed: update the driver",
                     driver.version / kMajor, driver.version % kMajor / kMinor, needed / kMajor,
                     needed % kMajor / kMinor);
}

void CudaDriver::Check(CuResult result, const char* call) const {
  if (result == kCuSuccess) return;
  CheckContext(result, call);
  Throw(tuttiUnhandledCudaError, "{}: {}", call, TheDriver().Phrase(result));
}

void CudaDriver::CheckContext(CuResult result, const char* call) const {
  if (!MeansLostContext(result)) return;
  Throw(tuttiUnhandledCudaError,
        "{}: {}: this process's CUDA context is lost. A kernel failed, which may be the program's or another library's "
        "(compute-sanitizer finds it); only a new process can use the GPU again",
        call, TheDriver().Phrase(result));
}

const CudaDriver* LoadedCudaDriver(std::string* why) {
  const Loaded& loaded = TheDriver();
  if (why != nullptr) *why = loaded.why;
  return loaded.usable ? &loaded.driver : nullptr;
}

}  // namespace tutti::cuda_transport
