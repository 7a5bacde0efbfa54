#include "transports/cuda_driver.h"

#include <dlfcn.h>

#include <string_view>

#include "base/error.h"

namespace tutti {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
// cuStreamGetCaptureInfo_v2 came with CUDA 11.3; everything else is older.
constexpr int kOldestDriver = 11030;

struct Loaded {
  CudaDriver driver{};
  bool usable = false;
  std::string why;

  Loaded() {
    // Never unloaded: its threads would lose their code.
    void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      why = fmt::format("there is no CUDA driver ({})", dlerror());
      return;
    }
    why = Bind(library);
    if (!why.empty()) return;
    if (const auto result = driver.cuInit(0); result != kCuSuccess) {
      why = fmt::format("the CUDA driver does not start (cuInit: {})", Phrase(result));
      return;
    }
    int version = 0;
    driver.cuDriverGetVersion(&version);
    if (version < kOldestDriver) {
      why = fmt::format("the CUDA driver's version is {}; {} is needed", version, kOldestDriver);
      return;
    }
    usable = true;
  }

  std::string Phrase(CuResult result) const {
    const char* text = nullptr;
    if (driver.cuGetErrorString(result, &text) != kCuSuccess || text == nullptr) return fmt::format("error {}", result);
    return text;
  }

  // The name of a function that the library lacks, or "".
  std::string Bind(void* library) {
    std::string missing;
    const auto bind = [&]<typename Function>(Function*& function, const char* name) {
      function = reinterpret_cast<Function*>(dlsym(library, name));
      if (function == nullptr && missing.empty()) {
        missing = fmt::format("the CUDA driver is too old: {} has no {}", kLibrary, name);
      }
    };
    // Where an interface has changed, the driver has its versions side by side, under these names.
    bind(driver.cuInit, "cuInit");
    bind(driver.cuDriverGetVersion, "cuDriverGetVersion");
    bind(driver.cuGetErrorString, "cuGetErrorString");
    bind(driver.cuDeviceGet, "cuDeviceGet");
    bind(driver.cuDeviceGetCount, "cuDeviceGetCount");
    bind(driver.cuDeviceGetUuid, "cuDeviceGetUuid");
    bind(driver.cuDeviceGetAttribute, "cuDeviceGetAttribute");
    bind(driver.cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer");
    bind(driver.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    bind(driver.cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
    bind(driver.cuCtxGetCurrent, "cuCtxGetCurrent");
    bind(driver.cuCtxGetDevice, "cuCtxGetDevice");
    bind(driver.cuCtxPushCurrent, "cuCtxPushCurrent_v2");
    bind(driver.cuCtxPopCurrent, "cuCtxPopCurrent_v2");
    bind(driver.cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess");
    bind(driver.cuModuleLoadData, "cuModuleLoadData");
    bind(driver.cuModuleUnload, "cuModuleUnload");
    bind(driver.cuModuleGetFunction, "cuModuleGetFunction");
    bind(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    bind(driver.cuLaunchKernel, "cuLaunchKernel");
    bind(driver.cuMemAlloc, "cuMemAlloc_v2");
    bind(driver.cuMemFree, "cuMemFree_v2");
    bind(driver.cuMemGetAddressRange, "cuMemGetAddressRange_v2");
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
    bind(driver.cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2");
    bind(driver.cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode");
    bind(driver.cuEventCreate, "cuEventCreate");
    bind(driver.cuEventDestroy, "cuEventDestroy_v2");
    bind(driver.cuEventRecord, "cuEventRecord");
    bind(driver.cuEventQuery, "cuEventQuery");
    return missing;
  }
};

const Loaded& TheDriver() {
  static const Loaded loaded;
  return loaded;
}

}  // namespace

void CudaDriver::Check(CuResult result, const char* call) const {
  if (result == kCuSuccess) return;
  Throw(tuttiUnhandledCudaError, "{}: {}", call, TheDriver().Phrase(result));
}

const CudaDriver* LoadedCudaDriver(std::string* why) {
  const Loaded& loaded = TheDriver();
  if (why != nullptr) *why = loaded.why;
  return loaded.usable ? &loaded.driver : nullptr;
}

CurrentDevice::CurrentDevice(const CudaDriver& driver, CuContext context) : driver_(driver) {
  driver.Check(driver.cuCtxPushCurrent(context), "cuCtxPushCurrent");
}

CurrentDevice::~CurrentDevice() {
  CuContext popped = nullptr;
  driver_.cuCtxPopCurrent(&popped);
}

BesideCapture::BesideCapture(const CudaDriver& driver) : driver_(driver) {
  driver_.cuThreadExchangeStreamCaptureMode(&mode_);
}

BesideCapture::~BesideCapture() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }

CudaMemory CudaMemory::OnDevice(const CudaDriver& driver, CuContext context, std::size_t bytes) {
  const CurrentDevice current(driver, context);
  const BesideCapture beside(driver);
  CuPointer pointer = 0;
  driver.Check(driver.cuMemAlloc(&pointer, bytes), "cuMemAlloc");
  CudaMemory memory;
  memory.driver_ = &driver;
  memory.context_ = context;
  memory.data_ = reinterpret_cast<std::byte*>(pointer);
  memory.bytes_ = bytes;
  return memory;
}

CudaMemory CudaMemory::Pinned(const CudaDriver& driver, CuContext context, std::size_t bytes) {
  const CurrentDevice current(driver, context);
  const BesideCapture beside(driver);
  void* pointer = nullptr;
  driver.Check(driver.cuMemHostAlloc(&pointer, bytes, kCuHostAllocPortable | kCuHostAllocDeviceMap), "cuMemHostAlloc");
  CudaMemory memory;
  memory.driver_ = &driver;
  memory.context_ = context;
  memory.data_ = static_cast<std::byte*>(pointer);
  memory.bytes_ = bytes;
  memory.pinned_ = true;
  return memory;
}

CudaMemory& CudaMemory::operator=(CudaMemory&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(context_, other.context_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(pinned_, other.pinned_);
  return *this;
}

// What the driver says to this is of no use to anybody: the process may be at its end, and the driver gone before us.
void CudaMemory::Release() {
  if (data_ == nullptr) return;
  if (driver_->cuCtxPushCurrent(context_) != kCuSuccess) return;
  if (pinned_) {
    driver_->cuMemFreeHost(data_);
  } else {
    driver_->cuMemFree(reinterpret_cast<CuPointer>(data_));
  }
  CuContext popped = nullptr;
  driver_->cuCtxPopCurrent(&popped);
  data_ = nullptr;
}

SideStream::SideStream(const CudaDriver& driver, CuContext context) : driver_(driver), context_(context) {
  const CurrentDevice current(driver, context);
  const BesideCapture beside(driver);
  driver.Check(driver.cuStreamCreate(&stream_, kCuStreamNonBlocking), "cuStreamCreate");
}

SideStream::~SideStream() { driver_.cuStreamDestroy(stream_); }

void SideStream::Copy(void* to, const void* from, std::size_t bytes) {
  const CurrentDevice current(driver_, context_);
  const BesideCapture beside(driver_);
  driver_.Check(
      driver_.cuMemcpyAsync(reinterpret_cast<CuPointer>(to), reinterpret_cast<CuPointer>(from), bytes, stream_),
      "cuMemcpyAsync");
  driver_.Check(driver_.cuStreamSynchronize(stream_), "cuStreamSynchronize");
}

void SideStream::Zero(void* to, std::size_t bytes) {
  const CurrentDevice current(driver_, context_);
  const BesideCapture beside(driver_);
  driver_.Check(driver_.cuMemsetD8Async(reinterpret_cast<CuPointer>(to), 0, bytes, stream_), "cuMemsetD8Async");
  driver_.Check(driver_.cuStreamSynchronize(stream_), "cuStreamSynchronize");
}

}  // namespace tutti
