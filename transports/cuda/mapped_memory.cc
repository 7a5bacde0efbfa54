#include "transports/cuda/mapped_memory.h"

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

PhysicalMemory PhysicalMemory::Import(const CudaDriver& driver, const shm::FileDescriptor& file) {
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

shm::FileDescriptor PhysicalMemory::Export() const {
  int file = -1;
  driver_->Check(driver_->cuMemExportToShareableHandle(&file, handle_, kCuFileDescriptor, 0),
                 "cuMemExportToShareableHandle");
  return shm::FileDescriptor(file);
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
  ReleaseIn(*held_.driver, held_.context, [this] {
    Unmap();
    held_.driver->cuMemAddressFree(held_.address, held_.room);
  });
}

// Ignores the driver's results: the process may be exiting.
void MappedMemory::Unmap() {
  CuPointer at = held_.address;
  for (const std::size_t bytes : held_.pieces) {
    held_.driver->cuMemUnmap(at, bytes);
    at += bytes;
  }
  held_.pieces.clear();
  held_.used = 0;
}

void MappedMemory::Append(const PhysicalMemory& memory, std::size_t bytes, std::span<const int> devices) {
  const auto& driver = *held_.driver;
  if (bytes > held_.room - held_.used) {
    Throw(tuttiInternalError, "a piece of {} bytes was to be mapped where {} are left", bytes, held_.room - held_.used);
  }
  const CurrentDevice current(driver, held_.context);
  const CuPointer at = held_.address + held_.used;
  driver.Check(driver.cuMemMap(at, bytes, 0, memory.handle(), 0), "cuMemMap");
  held_.pieces.push_back(bytes);
  held_.used += bytes;
  std::vector<CuAccess> accesses;
  for (const int device : devices) accesses.push_back({{kCuOnDevice, device}, kCuReadWrite});
  driver.Check(driver.cuMemSetAccess(at, bytes, accesses.data(), accesses.size()), "cuMemSetAccess");
}

std::optional<MappedMemory> NewMappedMemory(const CudaDriver& driver, CuContext context, std::size_t bytes) {
  const CurrentDevice current(driver, context);
  CuDevice device = 0;
  driver.Check(driver.cuCtxGetDevice(&device), "cuCtxGetDevice");
  const auto has = [&](int attribute) {
    int value = 0;
    return driver.cuDeviceGetAttribute(&value, attribute, device) == kCuSuccess && value != 0;
  };
  if (!has(kCuVirtualMemory) || !has(kCuFileHandles)) return std::nullopt;
  auto properties = ShareableMemoryOf(device);
  properties.rdma = has(kCuVirtualMemoryRdma) ? 1 : 0;  // the program may give the memory to a NIC
  std::size_t granularity = 0;
  driver.Check(driver.cuMemGetAllocationGranularity(&granularity, &properties, kCuBestGranularity),
               "cuMemGetAllocationGranularity");
  const std::size_t rounded = RoundUp(bytes, granularity);
  CuMemory handle = 0;
  if (driver.cuMemCreate(&handle, rounded, &properties, 0) != kCuSuccess) return std::nullopt;
  const PhysicalMemory memory(driver, handle);
  std::vector<int> devices{device};
  int count = 0;
  driver.Check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
  for (int peer = 0; peer < count; ++peer) {
    int reaches = 0;
    if (peer != device && driver.cuDeviceCanAccessPeer(&reaches, peer, device) == kCuSuccess && reaches != 0) {
      devices.push_back(peer);
    }
  }
  MappedMemory mapped(driver, context, rounded);
  mapped.Append(memory, rounded, devices);
  return mapped;
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
