// Multicast objects. An object's file has a table of the memory that is bound to it, by process and descriptor. Where it is
// mapped, all of that memory is mapped too, at the places where host kernels look for it
// (executors/cuda/kernels/host_kernel.h).
//
// Thread-safety: all of it.
#pragma once

#include <cuda.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "executors/cuda/kernels/host_kernel.h"
#include "testing/fake_gpu/memory/mapping.h"
#include "testing/fake_gpu/memory/physical_memory.h"

namespace tutti::fake_gpu {

inline constexpr std::uint64_t kMulticastMark = 0x7475'7474'692d'6d63;

struct MulticastTable {
  struct Bound {
    pid_t process;
    int file;
  };
  std::uint64_t mark;
  std::uint64_t bytes;
  std::uint32_t devices;
  std::atomic<std::uint64_t> members;  // a bit for each device that was added, by number
  std::atomic<std::uint32_t> bound;
  std::array<Bound, cuda_kernels::HostMulticast::kMostPlaces> memory;  // by number; process 0: none
};

// What is mapped for an object at an address.
struct MulticastMemory {
  std::size_t bytes;
  std::uint64_t members;  // of the object
  std::vector<std::shared_ptr<Mapping>> mappings;

  bool HasMember(CUdevice device) const;
};

// Maps an object whose devices have all bound memory to addresses that the caller has reserved, a region (host_kernel.h).
void MapMulticast(std::uintptr_t address, const MulticastTable& table);
// False: there is none.
bool UnmapMulticast(std::uintptr_t address);
// Null: there is none. Fails if it has another length.
std::optional<MulticastMemory> MulticastAt(std::uintptr_t address, std::size_t bytes);

}  // namespace tutti::fake_gpu
