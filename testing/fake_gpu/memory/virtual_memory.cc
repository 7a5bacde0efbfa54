// The driver's interface to memory without an address, and to the addresses that it is mapped to.
#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "executors/cuda/kernels/host_kernel.h"
#include "testing/fake_gpu/call.h"
#include "testing/fake_gpu/devices.h"
#include "testing/fake_gpu/environment.h"
#include "testing/fake_gpu/memory/memory.h"
#include "testing/fake_gpu/memory/multicast.h"
#include "testing/fake_gpu/memory/physical_memory.h"
#include "testing/fake_gpu/processor/processor.h"

namespace tutti::fake_gpu {
namespace {

using cuda_kernels::HostMulticast;

constexpr std::size_t kGranularity = std::size_t{2} << 20;

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

// What is mapped to this range, which must begin and end with mappings and have no holes.
std::vector<Range> MappedIn(std::uintptr_t address, std::size_t bytes) {
  std::vector<Range> ranges;
  for (std::size_t done = 0; done < bytes; done += ranges.back().bytes) {
    const auto range = Ranges::Instance().Find(address + done);
    Require(range && range->kind == Kind::kMapped && range->address == address + done && range->bytes <= bytes - done,
            CUDA_ERROR_INVALID_VALUE);
    ranges.push_back(*range);
  }
  Require(!ranges.empty(), CUDA_ERROR_INVALID_VALUE);
  return ranges;
}

void RequireAccess(const CUmemAccessDesc& access) {
  const bool known =
      access.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE || access.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
  Require(known && access.location.type == CU_MEM_LOCATION_TYPE_DEVICE && access.location.id >= 0 &&
              access.location.id < TheEnvironment().devices(),
          CUDA_ERROR_INVALID_VALUE);
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
                properties->location.id < TheEnvironment().devices(),
            CUDA_ERROR_INVALID_VALUE);
    MayWaitForKernels();
    Require(bytes <= TheEnvironment().memory_bytes - Ranges::Instance().DeviceBytes(properties->location.id),
            CUDA_ERROR_OUT_OF_MEMORY);
    const Nature nature{NumberOf(properties->location.id), static_cast<int>(properties->requestedHandleTypes),
                        getpid()};
    *handle = ValueOf(Objects().Add(NewPhysicalMemory(bytes, nature)));
  });
}

CUresult cuMemGetAllocationGranularity(std::size_t* granularity, const CUmemAllocationProp* /*properties*/,
                                       CUmemAllocationGranularity_flags /*option*/) {
  return Answer([&] { *granularity = kGranularity; });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  return Answer([&] {
    const auto object = Objects().Find(KeyOf(handle));
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
    *handle = ValueOf(Objects().Add(std::make_shared<Object>(file, range->bytes, NatureOf(file).value_or(Nature{}))));
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return Answer([&] { Objects().Remove(KeyOf(handle)); });
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
    const auto object = Objects().Find(KeyOf(handle));
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
    if (!UnmapMulticast(pointer)) Ranges::Instance().Remove(pointer, Kind::kMapped, CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult cuMemSetAccess(CUdeviceptr pointer, std::size_t bytes, const CUmemAccessDesc* access, std::size_t count) {
  return Answer([&] {
    const std::span accesses(access, count);
    std::for_each(accesses.begin(), accesses.end(), RequireAccess);
    std::vector<std::shared_ptr<Mapping>> mappings;
    if (const auto multicast = MulticastAt(pointer, bytes)) {
      // CUDA's documentation has this code for the call, but does not say for what.
      for (const auto& each : accesses) Require(multicast->HasMember(each.location.id), CUDA_ERROR_INVALID_DEVICE);
      mappings = multicast->mappings;
    } else {
      for (const Range& range : MappedIn(pointer, bytes)) {
        const int owner = NatureOf(range.mapping->file()).value_or(Nature{}).device;  // perhaps one that is not visible
        for (const auto& each : accesses) {
          Require(NumberReaches(NumberOf(each.location.id), owner), CUDA_ERROR_INVALID_DEVICE);
        }
        mappings.push_back(range.mapping);
      }
    }
    for (const auto& mapping : mappings) {
      for (const auto& each : accesses) {
        mapping->SetAccess(each.location.id, each.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      }
    }
  });
}

CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  return Answer([&] {
    Require(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && flags == 0, CUDA_ERROR_NOT_SUPPORTED);
    const auto object = Objects().Find(KeyOf(handle));
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
      Require(fstat(theirs, &found) == 0 && nature->device < TheEnvironment().machine_devices,
              CUDA_ERROR_INVALID_VALUE);
      auto object =
          std::make_shared<Object>(fcntl(theirs, F_DUPFD_CLOEXEC, 0), static_cast<std::size_t>(found.st_size), *nature);
      *handle = ValueOf(Objects().Add(std::move(object)));
      return;
    }
    std::uint64_t mark = 0;
    Require(pread(theirs, &mark, sizeof mark, 0) == sizeof mark && mark == kMulticastMark, CUDA_ERROR_INVALID_VALUE);
    *handle = ValueOf(Objects().Add(std::make_shared<Object>(fcntl(theirs, F_DUPFD_CLOEXEC, 0))));
  });
}
