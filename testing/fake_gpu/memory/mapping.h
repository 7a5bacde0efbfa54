// Pages of a file, which is the memory of a device or of the host, and the devices whose kernels may use them.
//
// Other processes map the file by the handle they are given. The address is the driver's name for the memory; the driver
// itself accesses it through a view, at the same address unless kernels run apart (processor/processors.h), when host code
// must not touch a device's memory. Then each device's access is a matter of its own. Otherwise all devices have the
// memory that any of them may use, and nobody has the memory that none may use.
// Thread-safety: all of it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

namespace tutti::fake_gpu {

class Mapping {
 public:
  // Takes over `file`; throws Failure if it cannot be mapped. No device has access. `hidden`: from host code, where kernels
  // run apart. `at`: its address, which the caller has reserved, and which stays reserved when the mapping ends; 0: any.
  Mapping(int file, std::size_t bytes, bool hidden, std::uintptr_t at = 0);
  static std::shared_ptr<Mapping> Make(std::size_t bytes, bool hidden);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // Throws Failure.
  void SetAccess(CUdevice device, bool may);
  void AllowAll();
  // Whether any device has access.
  bool accessible() const;

  std::uintptr_t address() const { return address_; }
  // Not to be touched unless the memory is accessible.
  std::byte* view() const { return view_; }
  int file() const { return file_; }

 private:
  void Release();

  const int file_;
  const std::size_t bytes_;
  const bool reserved_;
  std::uintptr_t address_ = 0;
  std::byte* view_ = nullptr;
  mutable std::mutex mutex_;
  std::set<CUdevice> access_;
};

inline std::uintptr_t Address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }
inline void* Pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

}  // namespace tutti::fake_gpu
