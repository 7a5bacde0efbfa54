// Memory without an address, and multicast objects: what handles of cuMemCreate and cuMulticastCreate refer to. Either is
// a file, which is also what other processes get.
//
// Thread-safety: all of it.
#pragma once

#include <cuda.h>
#include <sys/types.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "testing/fake_gpu/devices.h"
#include "testing/fake_gpu/handles.h"

namespace tutti::fake_gpu {

struct MulticastTable;

// What a file of physical memory tells by its name, as other processes know it, too.
struct Nature {
  int device = 0;  // its number in the machine
  int handle_types = 0;
  pid_t maker = 0;
};
std::optional<Nature> NatureOf(int file);

// Bytes of a device's memory that are bound to a multicast object, counted while this lives. Throws Failure if the device
// has no room for more.
class BoundBytes {
 public:
  BoundBytes(CUdevice device, std::size_t bytes);
  ~BoundBytes();
  BoundBytes(const BoundBytes&) = delete;
  BoundBytes& operator=(const BoundBytes&) = delete;

 private:
  const CUdevice device_;
  const std::size_t bytes_;
};

class Object {
 public:
  // Takes over `file`.
  Object(int file, std::size_t bytes, Nature nature) : file_(file), bytes_(bytes), nature_(nature) {}
  // A multicast object.
  explicit Object(int file);
  ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  int file() const { return file_; }
  std::size_t bytes() const;
  CUdevice device() const { return DeviceOfNumber(nature_.device); }
  const Nature& nature() const { return nature_; }
  MulticastTable* table() const { return table_; }  // null: it is no multicast object

  // Of a multicast object: what this process has bound by this handle.
  std::mutex mutex;
  std::map<CUdevice, BoundBytes> bound;

 private:
  const int file_;
  std::size_t bytes_ = 0;
  Nature nature_;
  MulticastTable* table_ = nullptr;
};

using ObjectKey = struct ObjectHandle*;
inline HandleTable<ObjectKey, Object>& Objects() { return Handles<ObjectKey, Object>(); }
inline ObjectKey KeyOf(CUmemGenericAllocationHandle handle) { return reinterpret_cast<ObjectKey>(handle); }
inline CUmemGenericAllocationHandle ValueOf(ObjectKey key) { return reinterpret_cast<std::uintptr_t>(key); }

// An unnamed file of zeros; throws Failure.
int NewFile(std::size_t bytes, const char* name = "tutti-fake_gpu");
// Memory of a device, of that nature.
std::shared_ptr<Object> NewPhysicalMemory(std::size_t bytes, const Nature& nature);

}  // namespace tutti::fake_gpu
