// This process's processors, one for each device that has kernels, and the memory that each of them has: what its device
// has access to. When one ends, as it does after a fault, all contexts are lost: all processors end, and the
// driver refuses every call.
//
// Thread-safety: all of it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>

#include "base/file_descriptor.h"
#include "testing/fake_gpu/processor/processor.h"

namespace tutti::fake_gpu {

class Processors {
 public:
  static Processors& Instance();

  // Bytes of a file, at this address in every processor whose device has access to them: none at first. Keeps a
  // descriptor of its own. Fails if this address has memory.
  void Add(std::uintptr_t address, std::size_t bytes, int file, std::uint64_t offset = 0);
  // The same for memory of the caller, to which all devices have access. It must be of a shared file, as memory between
  // processes is; of other memory kernels see nothing. Adds nothing if it fails.
  void AddOwn(std::uintptr_t address, std::size_t bytes);
  void Remove(std::uintptr_t address);
  // REQUIRES: the memory was added. Fails if the processor cannot map it.
  void SetAccess(std::uintptr_t address, CUdevice device, bool may);

  // Starts the device's processor, unless it runs. Throws Failure.
  void Start(CUdevice device) { Of(device); }
  // Runs a grid on the device; returns when it is done, or when the context is lost. REQUIRES: its
  // processor was started.
  void Run(CUdevice device, std::uint32_t kernel, const GridShape& shape, std::span<const std::byte> parameter);

 private:
  struct Memory {
    std::size_t bytes;
    FileDescriptor file;
    std::uint64_t offset;
    std::set<CUdevice> access;
  };
  Processors() = default;
  Processor& Of(CUdevice device);

  std::mutex mutex_;
  std::map<std::uintptr_t, Memory> memory_;
  std::map<CUdevice, std::unique_ptr<Processor>> started_;
};

}  // namespace tutti::fake_gpu
