// Memory without an address, the addresses that it is mapped to, and multicast objects.
//
// An object of either kind is a file, which is also what other processes get. A multicast object's file has a table of
// the memory that is bound to it, by process and descriptor. Where it is mapped, all of that memory is mapped too, at the
// places where host kernels look for it (executors/cuda/kernels/host_kernel.h).
#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executors/cuda/kernels/host_kernel.h"
#include "testing/fake_gpu/call.h"
#include "testing/fake_gpu/devices.h"
#include "testing/fake_gpu/environment.h"
#include "testing/fake_gpu/handles.h"
#include "testing/fake_gpu/memory/memory.h"
#include "testing/fake_gpu/processor/processor.h"

namespace tutti::fake_gpu {
namespace {

using cuda_kernels::HostMulticast;

constexpr std::size_t kGranularity = std::size_t{2} << 20;
constexpr std::uint64_t kMulticastMark = 0x7475'7474'692d'6d63;

struct Bound {
  pid_t process;
  int file;
};
// In a multicast object's file.
struct Table {
  std::uint64_t mark;
  std::uint64_t bytes;
  std::uint32_t devices;
  std::atomic<std::uint32_t> added, bound;
  std::array<Bound, HostMulticast::kMostPlaces> memory;  // by device; process 0: none
};

// What a file of physical memory tells by its name, as other processes know it, too.
struct Nature {
  CUdevice device = 0;
  int handle_types = 0;
  pid_t maker = 0;
};
constexpr const char* kNatureFormat = "tutti-fake_gpu-memory-%d-%d-%d";

std::optional<Nature> NatureOf(int file) {
  char link[64], name[128] = "";
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  if (readlink(link, name, sizeof name - 1) < 0) return std::nullopt;
  Nature nature;
  const auto format = std::string("/memfd:") + kNatureFormat;
  if (std::sscanf(name, format.c_str(), &nature.device, &nature.handle_types, &nature.maker) != 3) return std::nullopt;
  return nature;
}

class Object {
 public:
  Object(int file, std::size_t bytes, Nature nature) : file_(file), bytes_(bytes), nature_(nature) {}
  // Makes a multicast object. Takes over `file`.
  explicit Object(int file) : file_(file) {
    void* const pages = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    Require(pages != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
    table_ = static_cast<Table*>(pages);
  }
  ~Object() {
    if (table_ != nullptr) munmap(table_, sizeof(Table));
    close(file_);
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  int file() const { return file_; }
  std::size_t bytes() const { return table_ != nullptr ? table_->bytes : bytes_; }
  CUdevice device() const { return nature_.device; }
  const Nature& nature() const { return nature_; }
  Table* table() const { return table_; }

 private:
  const int file_;
  std::size_t bytes_ = 0;
  Nature nature_;
  Table* table_ = nullptr;
};

using Handle = struct ObjectHandle*;
HandleTable<Handle, Object>& Objects() { return Handles<Handle, Object>(); }
Handle HandleOf(CUmemGenericAllocationHandle handle) { return reinterpret_cast<Handle>(handle); }
CUmemGenericAllocationHandle NumberOf(Handle handle) { return reinterpret_cast<std::uintptr_t>(handle); }

std::shared_ptr<Object> MulticastOf(CUmemGenericAllocationHandle handle) {
  auto object = Objects().Find(HandleOf(handle));
  Require(object->table() != nullptr, CUDA_ERROR_INVALID_VALUE);
  return object;
}

int NewFile(std::size_t bytes, const char* name = "tutti-fake_gpu") {
  const int file = memfd_create(name, MFD_CLOEXEC);
  Require(file >= 0, CUDA_ERROR_OUT_OF_MEMORY);
  if (ftruncate(file, static_cast<off_t>(bytes)) == 0) return file;
  close(file);
  Fail(CUDA_ERROR_OUT_OF_MEMORY);
}

// The memory that each multicast address reaches.
struct Mapped {
  std::mutex mutex;
  std::map<std::uintptr_t, std::vector<std::shared_ptr<Mapping>>> multicast;
};
Mapped& TheMapped() {
  static auto* mapped = new Mapped;
  return *mapped;
}

// A region that begins at a multiple of its size.
std::uintptr_t ReserveRegion() {
  constexpr std::uintptr_t kRegion = HostMulticast::kRegion;
  const auto aligned = [](std::uintptr_t address) { return (address + kRegion - 1) / kRegion * kRegion; };
  if (TheEnvironment().apart) return aligned(Processor::Reserve(2 * kRegion));
  void* const pages = mmap(nullptr, 2 * kRegion, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Require(pages != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  const std::uintptr_t first = Address(pages), region = aligned(first);
  if (region > first) munmap(pages, region - first);
  munmap(Pointer(region + kRegion), first + kRegion - region);
  return region;
}

// Whether a range of addresses may be for a multicast object.
bool MayBeMulticast(std::size_t bytes) { return TheEnvironment().multicast && bytes <= HostMulticast::kStride; }

// Addresses for other memory.
std::uintptr_t ReserveMany(std::size_t bytes) {
  if (TheEnvironment().apart) return Processor::Reserve(bytes);
  void* const pages = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Require(pages != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  return Address(pages);
}

void MapMulticast(std::uintptr_t address, const Table& table) {
  Require(table.bound == table.devices, CUDA_ERROR_NOT_READY);
  std::vector<std::shared_ptr<Mapping>> mappings;
  for (const Bound& bound : table.memory) {
    if (bound.process == 0) continue;
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", static_cast<int>(bound.process), bound.file);
    const int file = open(path, O_RDWR | O_CLOEXEC);
    Require(file >= 0, CUDA_ERROR_INVALID_VALUE);
    const std::uintptr_t at = address + (1 + mappings.size()) * HostMulticast::kStride;
    mappings.push_back(std::make_shared<Mapping>(file, table.bytes, true, at));
  }
  constexpr std::size_t kPage = 4096;
  auto count = std::make_shared<Mapping>(NewFile(kPage), kPage, false, address + HostMulticast::kCountAt);
  *reinterpret_cast<std::uint32_t*>(count->view()) = table.devices;
  mappings.push_back(std::move(count));
  const std::lock_guard lock(TheMapped().mutex);
  TheMapped().multicast.emplace(address, std::move(mappings));
}

}  // namespace
}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;  // NOLINT: what follows is the driver's interface, in no namespace

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  return Answer([&] {
    Require(flags == 0 && bytes > 0 && bytes % kGranularity == 0, CUDA_ERROR_INVALID_VALUE);
    Require(properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
                properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                properties->location.id < TheEnvironment().devices,
            CUDA_ERROR_INVALID_VALUE);
    MayWaitForKernels();
    Require(bytes <= TheEnvironment().memory_bytes - Ranges::Instance().DeviceBytes(properties->location.id),
            CUDA_ERROR_OUT_OF_MEMORY);
    const Nature nature{properties->location.id, static_cast<int>(properties->requestedHandleTypes), getpid()};
    char name[64];
    std::snprintf(name, sizeof name, kNatureFormat, nature.device, nature.handle_types, nature.maker);
    *handle = NumberOf(Objects().Add(std::make_shared<Object>(NewFile(bytes, name), bytes, nature)));
  });
}

CUresult cuMemGetAllocationGranularity(std::size_t* granularity, const CUmemAllocationProp* /*properties*/,
                                       CUmemAllocationGranularity_flags /*option*/) {
  return Answer([&] { *granularity = kGranularity; });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  return Answer([&] {
    const auto object = Objects().Find(HandleOf(handle));
    Require(object->table() == nullptr, CUDA_ERROR_INVALID_VALUE);
    *properties = {};
    properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties->location = {CU_MEM_LOCATION_TYPE_DEVICE, object->device()};
    properties->requestedHandleTypes = static_cast<CUmemAllocationHandleType>(object->nature().handle_types);
  });
}

// Another handle of the memory that is mapped there.
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* pointer) {
  return Answer([&] {
    const auto range = Ranges::Instance().Find(Address(pointer));
    Require(range && range->kind == Kind::kMapped, CUDA_ERROR_INVALID_VALUE);
    const int file = fcntl(range->mapping->file(), F_DUPFD_CLOEXEC, 0);
    *handle = NumberOf(Objects().Add(std::make_shared<Object>(file, range->bytes, NatureOf(file).value_or(Nature{}))));
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return Answer([&] { Objects().Remove(HandleOf(handle)); });
}

CUresult cuMemAddressReserve(CUdeviceptr* pointer, std::size_t bytes, std::size_t /*alignment*/, CUdeviceptr at,
                             unsigned long long flags) {
  return Answer([&] {
    Require(flags == 0 && at == 0 && bytes > 0 && bytes % kGranularity == 0, CUDA_ERROR_INVALID_VALUE);
    *pointer = MayBeMulticast(bytes) ? ReserveRegion() : ReserveMany(bytes);
  });
}

CUresult cuMemAddressFree(CUdeviceptr pointer, std::size_t bytes) {
  return Answer([&] {
    const bool region = MayBeMulticast(bytes);
    Require(!region || pointer % HostMulticast::kRegion == 0, CUDA_ERROR_INVALID_VALUE);
    if (!TheEnvironment().apart) munmap(Pointer(pointer), region ? HostMulticast::kRegion : bytes);
  });
}

CUresult cuMemMap(CUdeviceptr pointer, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  return Answer([&] {
    const auto object = Objects().Find(HandleOf(handle));
    Require(flags == 0 && offset == 0 && bytes == object->bytes(), CUDA_ERROR_INVALID_VALUE);
    if (object->table() != nullptr) return MapMulticast(pointer, *object->table());
    auto mapping = std::make_shared<Mapping>(fcntl(object->file(), F_DUPFD_CLOEXEC, 0), bytes, true, pointer);
    Ranges::Instance().Add({.address = pointer,
                            .bytes = bytes,
                            .kind = Kind::kMapped,
                            .device = object->device(),
                            .foreign = object->nature().maker != getpid(),
                            .mapping = std::move(mapping)});
  });
}

CUresult cuMemUnmap(CUdeviceptr pointer, std::size_t /*bytes*/) {
  return Answer([&] {
    std::vector<std::shared_ptr<Mapping>> unmapped;
    const std::lock_guard lock(TheMapped().mutex);
    const auto found = TheMapped().multicast.find(pointer);
    if (found == TheMapped().multicast.end()) {
      Ranges::Instance().Remove(pointer, Kind::kMapped, CUDA_ERROR_INVALID_VALUE);
      return;
    }
    unmapped = std::move(found->second);
    TheMapped().multicast.erase(found);
  });
}

CUresult cuMemSetAccess(CUdeviceptr pointer, std::size_t bytes, const CUmemAccessDesc* access, std::size_t count) {
  return Answer([&] {
    const auto range = Ranges::Instance().Find(pointer);  // none: a multicast address
    Require(!range || (range->kind == Kind::kMapped && bytes > 0), CUDA_ERROR_INVALID_VALUE);
    for (std::size_t i = 0; i < count; ++i) {
      Require(access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
                  access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                  access[i].location.id < TheEnvironment().devices,
              CUDA_ERROR_INVALID_VALUE);
      Require(!range || Reaches(access[i].location.id, range->device), CUDA_ERROR_INVALID_DEVICE);
    }
  });
}

CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  return Answer([&] {
    Require(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && flags == 0, CUDA_ERROR_NOT_SUPPORTED);
    const auto object = Objects().Find(HandleOf(handle));
    Require(object->table() != nullptr || (object->nature().handle_types & type) != 0, CUDA_ERROR_NOT_SUPPORTED);
    *static_cast<int*>(shareable) = fcntl(object->file(), F_DUPFD_CLOEXEC, 0);
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                        CUmemAllocationHandleType type) {
  return Answer([&] {
    Require(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
    const int theirs = static_cast<int>(Address(shareable));
    if (const auto nature = NatureOf(theirs)) {
      struct stat found {};
      Require(fstat(theirs, &found) == 0 && nature->device < TheEnvironment().devices, CUDA_ERROR_INVALID_VALUE);
      auto object =
          std::make_shared<Object>(fcntl(theirs, F_DUPFD_CLOEXEC, 0), static_cast<std::size_t>(found.st_size), *nature);
      *handle = NumberOf(Objects().Add(std::move(object)));
      return;
    }
    std::uint64_t mark = 0;
    Require(pread(theirs, &mark, sizeof mark, 0) == sizeof mark && mark == kMulticastMark, CUDA_ERROR_INVALID_VALUE);
    *handle = NumberOf(Objects().Add(std::make_shared<Object>(fcntl(theirs, F_DUPFD_CLOEXEC, 0))));
  });
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle, const CUmulticastObjectProp* properties) {
  return Answer([&] {
    Require(TheEnvironment().multicast, CUDA_ERROR_NOT_SUPPORTED);
    Require(properties->numDevices > 0 && properties->numDevices <= HostMulticast::kMostPlaces &&
                properties->size % kGranularity == 0,
            CUDA_ERROR_INVALID_VALUE);
    auto object = std::make_shared<Object>(NewFile(sizeof(Table)));
    object->table()->mark = kMulticastMark;
    object->table()->bytes = properties->size;
    object->table()->devices = properties->numDevices;
    *handle = NumberOf(Objects().Add(std::move(object)));
  });
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  return Answer([&] {
    Require(device >= 0 && device < TheEnvironment().devices, CUDA_ERROR_INVALID_DEVICE);
    auto& table = *MulticastOf(handle)->table();
    Require(++table.added <= table.devices, CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, std::size_t offset,
                            CUmemGenericAllocationHandle memory_handle, std::size_t memory_offset, std::size_t bytes,
                            unsigned long long flags) {
  return Answer([&] {
    auto& table = *MulticastOf(handle)->table();
    const auto memory = Objects().Find(HandleOf(memory_handle));
    Require(flags == 0 && offset == 0 && memory_offset == 0 && bytes == memory->bytes() && bytes == table.bytes,
            CUDA_ERROR_INVALID_VALUE);
    Require(table.added == table.devices, CUDA_ERROR_ILLEGAL_STATE);  // the real driver waits for the other devices
    table.memory.at(static_cast<std::size_t>(memory->device())) = {getpid(), memory->file()};
    ++table.bound;
  });
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice /*device*/, std::size_t /*offset*/,
                           std::size_t /*bytes*/) {
  return Answer([&] { MulticastOf(handle); });
}

CUresult cuMulticastGetGranularity(std::size_t* granularity, const CUmulticastObjectProp* /*properties*/,
                                   CUmulticastGranularity_flags /*option*/) {
  return Answer([&] { *granularity = kGranularity; });
}
