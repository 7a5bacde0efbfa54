// tuttiMemAlloc's memory: memfds that peers can map or, in a thread with a CUDA context, memory of its device; and the
// register of all of it.
//
// Thread-safety: all functions may be called from any thread. The register is process-wide because tuttiMemFree and a
// registration get only a pointer.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "base/file_descriptor.h"
#include "transports/shm/segment.h"

namespace tutti::memory {

struct AllocationView {
  std::shared_ptr<shm::Mapping> mapping;  // maps the whole allocation
  FileDescriptor fd;                      // of its memfd
  std::size_t offset;                     // of the requested range in the allocation
};

// Zeroed. Throws tuttiInvalidArgument (bytes == 0), tuttiSystemError, tuttiUnhandledCudaError.
void* AllocateShared(std::size_t bytes);
// Throws tuttiInvalidArgument if the pointer is not the start of a live allocation. Null is allowed.
void FreeShared(void* pointer);
// Whether the pointer lies in memory of a GPU that AllocateShared() gave and FreeShared() has not taken back. All GPUs of
// this process that can reach that one may use it.
bool IsAllocatedOnDevice(const void* pointer);
// The host allocation that holds all of [pointer, pointer + bytes), if any. The result outlives FreeShared.
std::optional<AllocationView> FindAllocation(const void* pointer, std::size_t bytes);

}  // namespace tutti::memory
