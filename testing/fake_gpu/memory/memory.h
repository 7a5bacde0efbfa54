// Ranges of device and host memory that the driver knows.
//
// A device's memory is a memfd, which other processes map by the handle they are given. Its address is the driver's
// name for it; the driver itself accesses it through a view, at the same address unless kernels run apart
// (processor/processor.h), when host code must not touch it.
// Thread-safety: all of it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace tutti::fake_gpu {

enum class Kind {
  kDevice,      // cuMemAlloc
  kManaged,     // cuMemAllocManaged
  kImported,    // of another process's device memory
  kMapped,      // cuMemMap
  kPinned,      // cuMemHostAlloc
  kRegistered,  // the caller's own
};

// Pages of an unnamed file.
class Mapping {
 public:
  // Takes over `file`; throws Failure if it cannot be mapped. `hidden`: from host code, where kernels run apart. `at`: its
  // address, which the caller has reserved, and which stays reserved when the mapping ends; 0: any.
  Mapping(int file, std::size_t bytes, bool hidden, std::uintptr_t at = 0);
  static std::shared_ptr<Mapping> Make(std::size_t bytes, bool hidden);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::uintptr_t address() const { return address_; }
  std::byte* view() const { return view_; }
  int file() const { return file_; }

 private:
  void Release();

  const int file_;
  const std::size_t bytes_;
  const bool reserved_;
  std::uintptr_t address_ = 0;
  std::byte* view_ = nullptr;
};

struct Range {
  std::uintptr_t address;
  std::size_t bytes;
  Kind kind;
  CUdevice device;
  std::uint64_t id = 0;              // never reused
  bool foreign = false;              // kMapped: another process has made the memory
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

inline std::uintptr_t Address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }
inline void* Pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

}  // namespace tutti::fake_gpu
