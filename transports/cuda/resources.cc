#include "transports/cuda/resources.h"

namespace tutti::cuda_transport {
namespace {

std::size_t KiB(std::size_t bytes) { return bytes >> 10; }
std::size_t MiB(std::size_t bytes) { return bytes >> 20; }

void CheckPinning(const CudaDriver& driver, CuResult result, std::size_t bytes, const char* call) {
  if (result == kCuErrorOutOfMemory) {
    Throw(tuttiUnhandledCudaError, "the driver cannot pin {} KiB of host memory: free some, or let the job pin more",
          KiB(bytes));
  }
  driver.Check(result, call);
}

}  // namespace

void CheckAllocation(const CudaDriver& driver, CuResult result, std::size_t bytes, const char* call) {
  std::size_t free = 0, total = 0;
  CuDevice device = 0;
  if (result == kCuErrorOutOfMemory && driver.cuMemGetInfo(&free, &total) == kCuSuccess &&
      driver.cuCtxGetDevice(&device) == kCuSuccess) {
    Throw(tuttiUnhandledCudaError,
          "device {} has no {} KiB left for a communicator: {} of its {} MiB are free. Other programs may use it "
          "(nvidia-smi lists them); TUTTI_GPU=0 makes communicators for host memory only",
          device, KiB(bytes), MiB(free), MiB(total));
  }
  driver.Check(result, call);
}

void PinHostMemory(const CudaDriver& driver, void* begin, std::size_t bytes) {
  CheckPinning(driver, driver.cuMemHostRegister(begin, bytes, kCuHostRegisterPortable | kCuHostRegisterDeviceMap),
               bytes, "cuMemHostRegister");
}

CurrentDevice::CurrentDevice(const CudaDriver& driver, CuContext context)
    : driver_(driver), mode_(kCuCaptureModeRelaxed) {
  driver.Check(driver.cuCtxPushCurrent(context), "cuCtxPushCurrent");
  driver.cuThreadExchangeStreamCaptureMode(&mode_);
}

CurrentDevice::~CurrentDevice() {
  driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  CuContext popped = nullptr;
  driver_.cuCtxPopCurrent(&popped);
}

CudaMemory::CudaMemory(const CudaDriver& driver, CuContext context, void* data, std::size_t bytes, bool pinned)
    : driver_(&driver), context_(context), data_(static_cast<std::byte*>(data)), bytes_(bytes), pinned_(pinned) {}

CudaMemory CudaMemory::OnDevice(const CudaDriver& driver, CuContext context, std::size_t bytes) {
  const CurrentDevice current(driver, context);
  CuPointer pointer = 0;
  CheckAllocation(driver, driver.cuMemAlloc(&pointer, bytes), bytes, "cuMemAlloc");
  return {driver, context, reinterpret_cast<void*>(pointer), bytes, false};
}

CudaMemory CudaMemory::OnDevice(const CudaDriver& driver, CuContext context, std::size_t bytes, CuStream stream) {
  const CurrentDevice current(driver, context);
  CuPointer pointer = 0;
  CheckAllocation(driver, driver.cuMemAllocAsync(&pointer, bytes, stream), bytes, "cuMemAllocAsync");
  return {driver, context, reinterpret_cast<void*>(pointer), bytes, false};
}

CudaMemory CudaMemory::Pinned(const CudaDriver& driver, CuContext context, std::size_t bytes) {
  const CurrentDevice current(driver, context);
  void* pointer = nullptr;
  const auto result = driver.cuMemHostAlloc(&pointer, bytes, kCuHostAllocPortable | kCuHostAllocDeviceMap);
  CheckPinning(driver, result, bytes, "cuMemHostAlloc");
  return {driver, context, pointer, bytes, true};
}

PinnedPages::PinnedPages(const CudaDriver& driver, CuContext context, std::byte* begin, std::size_t bytes)
    : driver_(driver), context_(context), begin_(begin), bytes_(bytes) {
  const CurrentDevice current(driver, context);
  PinHostMemory(driver, begin, bytes);
}

PinnedPages::~PinnedPages() {
  ReleaseIn(driver_, context_, [this] { driver_.cuMemHostUnregister(begin_); });
}

CudaMemory& CudaMemory::operator=(CudaMemory&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(context_, other.context_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(pinned_, other.pinned_);
  return *this;
}

// Ignores the driver's results: the process may be exiting, and the driver may already be gone.
void CudaMemory::Release() {
  if (data_ == nullptr) return;
  ReleaseIn(*driver_, context_, [&] {
    if (pinned_) {
      driver_->cuMemFreeHost(data_);
    } else {
      driver_->cuMemFree(reinterpret_cast<CuPointer>(data_));
    }
  });
  data_ = nullptr;
}

void EnqueueCopy(const CudaDriver& driver, void* to, const void* from, std::size_t bytes, CuStream stream) {
  driver.Check(driver.cuMemcpyAsync(reinterpret_cast<CuPointer>(to), reinterpret_cast<CuPointer>(from), bytes, stream),
               "cuMemcpyAsync");
}

StreamMemory::StreamMemory(const CudaDriver& driver, const void* from, std::size_t bytes, CuStream stream)
    : driver_(driver), stream_(stream) {
  CheckAllocation(driver, driver.cuMemAllocAsync(&pointer_, bytes, stream), bytes, "cuMemAllocAsync");
  EnqueueCopy(driver, data(), from, bytes, stream);
}

StreamMemory::~StreamMemory() {
  if (pointer_ != 0) driver_.cuMemFreeAsync(pointer_, stream_);
}

CudaEvent::CudaEvent(const CudaDriver& driver, CuContext context) : driver_(driver), context_(context) {
  const CurrentDevice current(driver, context);
  driver.Check(driver.cuEventCreate(&event_, kCuEventDisableTiming), "cuEventCreate");
}

CudaEvent::~CudaEvent() {
  if (event_ != nullptr) driver_.cuEventDestroy(event_);
}

void CudaEvent::Record(CuStream stream) { driver_.Check(driver_.cuEventRecord(event_, stream), "cuEventRecord"); }

void CudaEvent::Block(CuStream stream) const {
  driver_.Check(driver_.cuStreamWaitEvent(stream, event_, 0), "cuStreamWaitEvent");
}

bool CudaEvent::Passed() const {
  bool passed = true;
  ReleaseIn(driver_, context_, [&] { passed = driver_.cuEventQuery(event_) != kCuErrorNotReady; });
  return passed;
}

SideStream::SideStream(const CudaDriver& driver, CuContext context)
    : driver_(driver), context_(context), copied_(driver, context) {
  const CurrentDevice current(driver, context);
  driver.Check(driver.cuStreamCreate(&stream_, kCuStreamNonBlocking), "cuStreamCreate");
}

SideStream::~SideStream() { driver_.cuStreamDestroy(stream_); }

void SideStream::Copy(void* to, const void* from, std::size_t bytes) {
  Run([&](CuStream stream) { EnqueueCopy(driver_, to, from, bytes, stream); });
}

void SideStream::CopyLater(void* to, const void* from, std::size_t bytes) {
  const CurrentDevice current(driver_, context_);
  EnqueueCopy(driver_, to, from, bytes, stream_);
  copied_.Record(stream_);
  pending_ = true;
}

void SideStream::Precede(CuStream other, bool captured) {
  if (!pending_) return;
  const CurrentDevice current(driver_, context_);
  if (captured) driver_.Check(driver_.cuStreamSynchronize(stream_), "cuStreamSynchronize");
  pending_ = !copied_.Passed();
  if (pending_) copied_.Block(other);
}

void SideStream::Zero(void* to, std::size_t bytes) {
  Run([&](CuStream stream) {
    driver_.Check(driver_.cuMemsetD8Async(reinterpret_cast<CuPointer>(to), 0, bytes, stream), "cuMemsetD8Async");
  });
}

}  // namespace tutti::cuda_transport
