#include "transports/cuda/cuda_device.h"

#include <cstring>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/log.h"

namespace tutti::cuda_transport {

CudaDevice::CudaDevice(const CudaDriver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {
  int count = 0;
  driver.Check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count) {
    Throw(tuttiInvalidArgument, "device is {}; this process sees {} CUDA device{}", ordinal, count,
          count == 1 ? "" : "s");
  }
  driver.Check(driver.cuDeviceGet(&device_, ordinal), "cuDeviceGet");
  driver.Check(driver.cuDeviceGetUuid(&uuid_, device_), "cuDeviceGetUuid");
  const auto retained = driver.cuDevicePrimaryCtxRetain(&context_, device_);
  if (retained == kCuErrorDeviceUnavailable) {
    Throw(tuttiUnhandledCudaError,
          "device {} is unavailable: another process has it to itself, or it takes no work (`nvidia-smi -q -d COMPUTE` "
          "tells its compute mode)",
          ordinal);
  }
  driver.Check(retained, "cuDevicePrimaryCtxRetain");
}

CudaDevice::~CudaDevice() { driver_.cuDevicePrimaryCtxRelease(device_); }

int CudaDevice::Attribute(int attribute) const {
  int value = 0;
  driver_.Check(driver_.cuDeviceGetAttribute(&value, attribute, device_), "cuDeviceGetAttribute");
  return value;
}

bool CudaDevice::Reaches(const CudaDevice& other) const {
  if (IsSame(other.uuid_)) return true;
  int can = 0;
  driver_.Check(driver_.cuDeviceCanAccessPeer(&can, device_, other.device_), "cuDeviceCanAccessPeer");
  if (can == 0) return false;
  const CurrentDevice current(driver_, context_);
  const auto result = driver_.cuCtxEnablePeerAccess(other.context_, 0);
  return result == kCuSuccess || result == kCuErrorPeerAccessAlreadyEnabled;
}

bool CudaDevice::IsSame(const CuUuid& uuid) const { return std::memcmp(&uuid_, &uuid, sizeof uuid) == 0; }

std::optional<ShareableBuffer> ShareableBufferOf(const CudaDevice& device, const void* buffer, std::size_t bytes) {
  const auto& driver = device.driver();
  const CurrentDevice current(driver, device.context());
  const auto address = reinterpret_cast<CuPointer>(buffer);
  CuPointer base = 0;
  std::size_t size = 0;
  if (driver.cuMemGetAddressRange(&base, &size, address) != kCuSuccess) return std::nullopt;
  if (address - base > size || bytes > size - (address - base)) return std::nullopt;
  ShareableBuffer shareable{{}, address - base};
  if (driver.cuIpcGetMemHandle(&shareable.handle, base) != kCuSuccess) return std::nullopt;
  return shareable;
}

OpenedMemory::OpenedMemory(const CudaDevice& device, const CuIpcHandle& handle) : device_(&device) {
  const CurrentDevice current(device.driver(), device.context());
  CuPointer pointer = 0;
  device.driver().Check(device.driver().cuIpcOpenMemHandle(&pointer, handle, kCuIpcLazyPeerAccess),
                        "cuIpcOpenMemHandle");
  data_ = reinterpret_cast<std::byte*>(pointer);
}

std::byte* OpenedMemory::Part(std::uint64_t offset, std::uint64_t bytes) const {
  const auto& driver = device_->driver();
  const CurrentDevice current(driver, device_->context());
  std::size_t size = 0;
  if (driver.cuMemGetAddressRange(nullptr, &size, reinterpret_cast<CuPointer>(data_)) != kCuSuccess) {
    Log(Subject::transport,
        "the driver does not report the size of another process's memory: its owner's figure is trusted");
  } else if (offset > size || bytes > size - offset) {
    Throw(tuttiInternalError, "a peer offered {} bytes from byte {} of an allocation that has {} bytes", bytes, offset,
          size);
  }
  return data_ + offset;
}

OpenedMemory::~OpenedMemory() {
  if (data_ == nullptr) return;
  const auto& driver = device_->driver();
  ReleaseIn(driver, device_->context(), [&] { driver.cuIpcCloseMemHandle(reinterpret_cast<CuPointer>(data_)); });
}

namespace {

// Ranks of one process share a mapping, which the driver pins once.
struct Pins {
  std::mutex mutex;
  std::map<std::byte*, int> users;
};
Pins& ThePins() {
  static auto* const pins = new Pins;  // never destroyed: communicators may outlive the end of main()
  return *pins;
}

}  // namespace

PinnedSegment::PinnedSegment(const CudaDevice& device, shm::Segment segment)
    : device_(device), segment_(std::move(segment)) {
  const auto& driver = device.driver();
  const CurrentDevice current(driver, device.context());
  auto& pins = ThePins();
  const std::lock_guard lock(pins.mutex);
  auto& users = pins.users[segment_.data()];
  if (users == 0) {
    PinHostMemory(driver, segment_.data(), segment_.bytes());
  }
  ++users;
  CuPointer data = 0;
  driver.Check(driver.cuMemHostGetDevicePointer(&data, segment_.data(), 0), "cuMemHostGetDevicePointer");
  data_ = reinterpret_cast<std::byte*>(data);
}

PinnedSegment::~PinnedSegment() {
  auto& pins = ThePins();
  const std::lock_guard lock(pins.mutex);
  const auto found = pins.users.find(segment_.data());
  if (--found->second > 0) return;
  pins.users.erase(found);
  const auto& driver = device_.driver();
  ReleaseIn(driver, device_.context(), [&] { driver.cuMemHostUnregister(segment_.data()); });
}

}  // namespace tutti::cuda_transport
