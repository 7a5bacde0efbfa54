#include "transports/cuda/memory/mapped_memory.h"

#include <fmt/ranges.h>

#include "base/file_descriptor.h"
#include "base/numbers/rounding.h"

namespace tutti::cuda_transport {

PhysicalMemory::~PhysicalMemory() {
  if (handle_ != 0) driver_->cuMemRelease(handle_);
}

std::optional<PhysicalMemory> PhysicalMemory::At(const CudaDriver& driver, const void* pointer) {
  CuMemory handle = 0;
  if (driver.cuMemRetainAllocationHandle(&handle, const_cast<void*>(pointer)) != kCuSuccess) return std::nullopt;
  return PhysicalMemory(driver, handle);
}

PhysicalMemory PhysicalMemory::Import(const CudaDriver& driver, const FileDescriptor& file) {
  CuMemory handle = 0;
  // The descriptor itself passes for a pointer.
  void* const number = reinterpret_cast<void*>(static_cast<std::uintptr_t>(file.get()));
  driver.Check(driver.cuMemImportFromShareableHandle(&handle, number, kCuFileDescriptor),
               "cuMemImportFromShareableHandle");
  return {driver, handle};
}

bool PhysicalMemory::shareable() const {
  CuMemoryProperties properties{};
  driver_->Check(driver_->cuMemGetAllocationPropertiesFromHandle(&properties, handle_),
                 "cuMemGetAllocationPropertiesFromHandle");
  return (properties.handle_types & kCuFileDescriptor) != 0;
}

FileDescriptor PhysicalMemory::Export() const {
  int file = -1;
  driver_->Check(driver_->cuMemExportToShareableHandle(&file, handle_, kCuFileDescriptor, 0),
                 "cuMemExportToShareableHandle");
  return FileDescriptor(file);
}

CuMemoryProperties ShareableMemoryOf(int device) {
  CuMemoryProperties properties{};
  properties.type = kCuPinnedMemory;
  properties.handle_types = kCuFileDescriptor;
  properties.location = {kCuOnDevice, device};
  return properties;
}

MappedMemory::MappedMemory(const CudaDriver& driver, CuContext context, std::size_t room)
    : held_{&driver, context, 0, room, 0, {}} {
  const CurrentDevice current(driver, context);
  constexpr std::size_t kAnyAlignment = 0;
  driver.Check(driver.cuMemAddressReserve(&held_.address, room, kAnyAlignment, 0, 0), "cuMemAddressReserve");
}

MappedMemory::~MappedMemory() {
  if (held_.address == 0) return;
  Unmap();
  ReleaseIn(*held_.driver, held_.context, [this] { held_.driver->cuMemAddressFree(held_.address, held_.room); });
}

// Ignores the driver's results: the process may be exiting.
void MappedMemory::Unmap() noexcept {
  if (held_.pieces.empty()) return;
  ReleaseIn(*held_.driver, held_.context, [this] {
    for (const auto& [place, bytes] : held_.pieces) held_.driver->cuMemUnmap(held_.address + place, bytes);
  });
  held_.pieces.clear();
  held_.used = 0;
}

void MappedMemory::MapAt(std::size_t place, const PhysicalMemory& memory, std::size_t bytes,
                         std::span<const int> devices) {
  const auto& driver = *held_.driver;
  if (bytes > held_.room - place) {
    Throw(tuttiInternalError, "a piece of {} bytes was to be mapped where {} are left", bytes, held_.room - place);
  }
  const CurrentDevice current(driver, held_.context);
  const CuPointer at = held_.address + place;
  std::vector<CuAccess> accesses;
  for (const int device : devices) accesses.push_back({{kCuOnDevice, device}, kCuReadWrite});
  driver.Check(driver.cuMemMap(at, bytes, 0, memory.handle(), 0), "cuMemMap");
  const auto result = driver.cuMemSetAccess(at, bytes, accesses.data(), accesses.size());
  if (result == kCuSuccess) {
    held_.pieces.push_back({place, bytes});
    held_.used += bytes;
    return;
  }
  driver.cuMemUnmap(at, bytes);  // or the place could not be mapped again
  if (result == kCuErrorInvalidDevice) {
    Throw(
        tuttiUnhandledCudaError,
        "a device among {} does not reach the memory of another: they have no peer access (instances of a partitioned "
        "GPU never have)",
        fmt::join(devices, ", "));
  }
  driver.Check(result, "cuMemSetAccess");
}

namespace {

// New physical memory of a device.
class Maker {
 public:
  // REQUIRES: the device's context is current.
  explicit Maker(const CudaDriver& driver) : driver_(driver) {
    driver.Check(driver.cuCtxGetDevice(&device_), "cuCtxGetDevice");
    properties_ = ShareableMemoryOf(device_);
    properties_.rdma = Has(kCuVirtualMemoryRdma) ? 1 : 0;  // the program may give the memory to a NIC
  }

  bool able() const { return Has(kCuVirtualMemory) && Has(kCuFileHandles); }
  std::size_t Rounded(std::size_t bytes) const {
    std::size_t granularity = 0;
    driver_.Check(driver_.cuMemGetAllocationGranularity(&granularity, &properties_, kCuBestGranularity),
                  "cuMemGetAllocationGranularity");
    return RoundUp(bytes, granularity);
  }
  CuResult Make(std::size_t bytes, CuMemory* memory) const {
    return driver_.cuMemCreate(memory, bytes, &properties_, 0);
  }
  CuDevice device() const { return device_; }
  // The device, and those of this process that reach its memory.
  std::vector<int> Users() const {
    std::vector<int> users{device_};
    int count = 0;
    driver_.Check(driver_.cuDeviceGetCount(&count), "cuDeviceGetCount");
    for (int peer = 0; peer < count; ++peer) {
      int reaches = 0;
      if (peer != device_ && driver_.cuDeviceCanAccessPeer(&reaches, peer, device_) == kCuSuccess && reaches != 0) {
        users.push_back(peer);
      }
    }
    return users;
  }

 private:
  bool Has(int attribute) const {
    int value = 0;
    return driver_.cuDeviceGetAttribute(&value, attribute, device_) == kCuSuccess && value != 0;
  }

  const CudaDriver& driver_;
  CuDevice device_ = 0;
  CuMemoryProperties properties_{};
};

}  // namespace

std::optional<MappedMemory> NewMappedMemory(const CudaDriver& driver, CuContext context, std::size_t bytes) {
  const CurrentDevice current(driver, context);
  const Maker maker(driver);
  if (!maker.able()) return std::nullopt;
  const std::size_t rounded = maker.Rounded(bytes);
  CuMemory handle = 0;
  if (maker.Make(rounded, &handle) != kCuSuccess) return std::nullopt;
  const PhysicalMemory memory(driver, handle);
  MappedMemory mapped(driver, context, rounded);
  mapped.Append(memory, rounded, maker.Users());
  return mapped;
}

std::size_t MemoryGranularity(const CudaDriver& driver, CuContext context) {
  const CurrentDevice current(driver, context);
  return Maker(driver).Rounded(1);
}

void FillWithNewMemory(MappedMemory& mapped, std::size_t place, std::size_t bytes, MemoryUsers users) {
  const auto& driver = mapped.driver();
  const CurrentDevice current(driver, mapped.context());
  const Maker maker(driver);
  CuMemory handle = 0;
  CheckAllocation(driver, maker.Make(bytes, &handle), bytes, "cuMemCreate");
  const PhysicalMemory memory(driver, handle);
  mapped.MapAt(place, memory, bytes, users == MemoryUsers::all ? maker.Users() : std::vector{maker.device()});
}

Pieces PiecesUnder(const CudaDriver& driver, CuContext context, const void* buffer, std::size_t bytes) {
  const CurrentDevice current(driver, context);
  const auto begin = reinterpret_cast<CuPointer>(buffer);
  Pieces pieces;
  for (CuPointer at = begin; at < begin + bytes;) {
    const auto memory = PhysicalMemory::At(driver, reinterpret_cast<const void*>(at));
    Pieces::Piece piece{};
    if (!memory || driver.cuMemGetAddressRange(&piece.address, &piece.bytes, at) != kCuSuccess) {
      if (!pieces.all.empty()) pieces.fault = Pieces::Fault::hole;
      return pieces;
    }
    if (!memory->shareable()) pieces.fault = Pieces::Fault::not_shareable;
    if (pieces.all.empty()) pieces.offset = at - piece.address;
    pieces.all.push_back(piece);
    at = piece.address + piece.bytes;
  }
  return pieces;
}

}  // namespace tutti::cuda_transport
