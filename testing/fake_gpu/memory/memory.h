// Ranges of device and host memory that the driver knows.
//
// Thread-safety: all of it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "testing/fake_gpu/memory/mapping.h"

namespace tutti::fake_gpu {

enum class Kind {
  kDevice,      // cuMemAlloc
  kManaged,     // cuMemAllocManaged
  kImported,    // of another process's device memory
  kMapped,      // cuMemMap
  kPinned,      // cuMemHostAlloc
  kRegistered,  // the caller's own
};

struct Range {
  std::uintptr_t address;
  std::size_t bytes;
  Kind kind;
  CUdevice device;
  std::uint64_t id = 0;              // never reused
  bool foreign = false;              // kMapped: another process has made the memory
  bool pooled = false;               // kDevice: of cuMemAllocAsync
  std::shared_ptr<Mapping> mapping;  // null: the caller's own memory

  bool OnDevice() const {
    return kind == Kind::kDevice || kind == Kind::kManaged || kind == Kind::kImported || kind == Kind::kMapped;
  }
};

class Ranges {
 public:
  static Ranges& Instance();

  void Add(Range range);
  // Removes the range of that kind that starts at `address`; fails with `otherwise` if there is none.
  Range Remove(std::uintptr_t address, Kind kind, CUresult otherwise);
  std::optional<Range> Find(std::uintptr_t address) const;
  bool Overlaps(std::uintptr_t address, std::size_t bytes) const;
  // Whether kernels of `peer` may use what cuMemAlloc makes of `owner`'s memory: of what there is now. Access to pools and
  // to mapped memory is a matter of its own.
  void SetPeerAccess(CUdevice peer, CUdevice owner, bool may);
  // Taken of a device's memory, and pinned in all.
  std::size_t DeviceBytes(CUdevice device) const;
  std::size_t PinnedBytes() const;

 private:
  Ranges() = default;
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Range> ranges_;
  std::uint64_t next_id_ = 1;
};

// For calls that map memory: the real driver may wait for kernels in them. Waits for those of all devices if the
// environment says so.
void MayWaitForKernels();

}  // namespace tutti::fake_gpu
