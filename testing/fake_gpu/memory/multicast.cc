#include "testing/fake_gpu/memory/multicast.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <map>
#include <mutex>
#include <utility>

#include "testing/fake_gpu/call.h"
#include "testing/fake_gpu/environment.h"

namespace tutti::fake_gpu {
namespace {

using cuda_kernels::HostMulticast;

struct Mapped {
  std::mutex mutex;
  std::map<std::uintptr_t, MulticastMemory> multicast;
};
Mapped& TheMapped() {
  static auto* mapped = new Mapped;
  return *mapped;
}

// How much of the switch this process uses.
struct Used {
  std::mutex mutex;
  int objects = 0;  // that it has made
  std::map<CUdevice, std::size_t> bytes;
};
Used& TheUsed() {
  static auto* used = new Used;
  return *used;
}

// An object that counts as made while it lives.
class MadeObject : public Object {
 public:
  MadeObject() : Object(NewFile(sizeof(MulticastTable))) {
    auto& used = TheUsed();
    const std::lock_guard lock(used.mutex);
    Require(used.objects < TheEnvironment().multicast_objects, CUDA_ERROR_OUT_OF_MEMORY);
    ++used.objects;
  }
  ~MadeObject() {
    const std::lock_guard lock(TheUsed().mutex);
    --TheUsed().objects;
  }
  MadeObject(const MadeObject&) = delete;
  MadeObject& operator=(const MadeObject&) = delete;
};

std::shared_ptr<Object> MulticastOf(CUmemGenericAllocationHandle handle) {
  auto object = Objects().Find(KeyOf(handle));
  Require(object->table() != nullptr, CUDA_ERROR_INVALID_VALUE);
  return object;
}

bool IsWhole(std::size_t bytes) { return bytes % TheEnvironment().multicast_least == 0; }

std::uint64_t MemberBit(int number) { return std::uint64_t{1} << number; }

}  // namespace

BoundBytes::BoundBytes(CUdevice device, std::size_t bytes) : device_(device), bytes_(bytes) {
  auto& used = TheUsed();
  const std::lock_guard lock(used.mutex);
  Require(bytes <= TheEnvironment().multicast_bytes - used.bytes[device], CUDA_ERROR_OUT_OF_MEMORY);
  used.bytes[device] += bytes;
}

BoundBytes::~BoundBytes() {
  const std::lock_guard lock(TheUsed().mutex);
  TheUsed().bytes[device_] -= bytes_;
}

bool MulticastMemory::HasMember(CUdevice device) const { return (members & MemberBit(NumberOf(device))) != 0; }

void MapMulticast(std::uintptr_t address, const MulticastTable& table) {
  Require(table.bound == table.devices, CUDA_ERROR_NOT_READY);
  std::vector<std::shared_ptr<Mapping>> mappings;
  for (const auto& bound : table.memory) {
    if (bound.process == 0) continue;
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", static_cast<int>(bound.process), bound.file);
    const int file = open(path, O_RDWR | O_CLOEXEC);
    Require(file >= 0, CUDA_ERROR_INVALID_VALUE);
    const std::uintptr_t at = address + (1 + mappings.size()) * HostMulticast::kStride;
    mappings.push_back(std::make_shared<Mapping>(file, table.bytes, true, at));
  }
  constexpr std::size_t kPage = 4096;
  const int count = NewFile(kPage);
  const std::uint32_t devices = table.devices;
  Require(pwrite(count, &devices, sizeof devices, 0) == sizeof devices, CUDA_ERROR_OUT_OF_MEMORY);
  mappings.push_back(std::make_shared<Mapping>(count, kPage, false, address + HostMulticast::kCountAt));
  const std::lock_guard lock(TheMapped().mutex);
  TheMapped().multicast.emplace(address, MulticastMemory{table.bytes, table.members, std::move(mappings)});
}

bool UnmapMulticast(std::uintptr_t address) {
  std::vector<std::shared_ptr<Mapping>> unmapped;  // ends when the lock is free
  const std::lock_guard lock(TheMapped().mutex);
  auto node = TheMapped().multicast.extract(address);
  if (node.empty()) return false;
  unmapped = std::move(node.mapped().mappings);
  return true;
}

std::optional<MulticastMemory> MulticastAt(std::uintptr_t address, std::size_t bytes) {
  const std::lock_guard lock(TheMapped().mutex);
  const auto found = TheMapped().multicast.find(address);
  if (found == TheMapped().multicast.end()) return std::nullopt;
  Require(bytes == found->second.bytes, CUDA_ERROR_INVALID_VALUE);
  return found->second;
}

}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;  // NOLINT: what follows is the driver's interface, in no namespace

CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle, const CUmulticastObjectProp* properties) {
  return Answer([&] {
    Require(TheEnvironment().multicast, CUDA_ERROR_NOT_SUPPORTED);
    Require(properties->numDevices > 0 && properties->numDevices <= HostMulticast::kMostPlaces &&
                properties->size > 0 && IsWhole(properties->size),
            CUDA_ERROR_INVALID_VALUE);
    auto object = std::make_shared<MadeObject>();
    object->table()->mark = kMulticastMark;
    object->table()->bytes = properties->size;
    object->table()->devices = properties->numDevices;
    *handle = ValueOf(Objects().Add(std::move(object)));
  });
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  return Answer([&] {
    Require(device >= 0 && device < TheEnvironment().devices(), CUDA_ERROR_INVALID_DEVICE);
    auto& table = *MulticastOf(handle)->table();
    const std::uint64_t bit = MemberBit(NumberOf(device)), before = table.members.fetch_or(bit);
    Require((before & bit) == 0 && std::popcount(before | bit) <= static_cast<int>(table.devices),
            CUDA_ERROR_INVALID_VALUE);
  });
}

// Here all of the memory is bound to all of the object.
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, std::size_t offset,
                            CUmemGenericAllocationHandle memory_handle, std::size_t memory_offset, std::size_t bytes,
                            unsigned long long flags) {
  return Answer([&] {
    const auto object = MulticastOf(handle);
    auto& table = *object->table();
    const auto memory = Objects().Find(KeyOf(memory_handle));
    Require(flags == 0 && memory->table() == nullptr && IsWhole(offset) && IsWhole(memory_offset) && IsWhole(bytes) &&
                bytes > 0 && bytes <= memory->bytes() && memory_offset <= memory->bytes() - bytes &&
                bytes <= table.bytes && offset <= table.bytes - bytes,
            CUDA_ERROR_INVALID_VALUE);
    Require(bytes == memory->bytes() && bytes == table.bytes, CUDA_ERROR_NOT_SUPPORTED);
    const std::uint64_t members = table.members;
    // The real driver waits for the other devices.
    Require(std::popcount(members) == static_cast<int>(table.devices), CUDA_ERROR_ILLEGAL_STATE);
    const int number = memory->nature().device;
    Require((members & MemberBit(number)) != 0, CUDA_ERROR_INVALID_DEVICE);
    const std::lock_guard lock(object->mutex);
    auto& bound = table.memory.at(static_cast<std::size_t>(number));
    Require(bound.process == 0, CUDA_ERROR_INVALID_VALUE);
    object->bound.try_emplace(memory->device(), memory->device(), bytes);
    bound = {getpid(), memory->file()};
    ++table.bound;
  });
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, std::size_t offset,
                           std::size_t bytes) {
  return Answer([&] {
    const auto object = MulticastOf(handle);
    auto& table = *object->table();
    Require(device >= 0 && device < TheEnvironment().devices(), CUDA_ERROR_INVALID_DEVICE);
    const std::lock_guard lock(object->mutex);
    Require(offset == 0 && bytes == table.bytes && object->bound.erase(device) == 1, CUDA_ERROR_INVALID_VALUE);
    table.memory.at(static_cast<std::size_t>(NumberOf(device))) = {};
    --table.bound;
  });
}

CUresult cuMulticastGetGranularity(std::size_t* granularity, const CUmulticastObjectProp* /*properties*/,
                                   CUmulticastGranularity_flags option) {
  return Answer([&] {
    *granularity =
        option == CU_MULTICAST_GRANULARITY_MINIMUM ? TheEnvironment().multicast_least : TheEnvironment().multicast_best;
  });
}
