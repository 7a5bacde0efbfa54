// Memory of a GPU for what a communicator writes there once and keeps: plans, scratch. Taken ahead, in large pieces:
// allocating may wait for kernels, and a kernel may be waiting for the very rank that allocates.
//
// Thread-safety: used by one thread at a time.
#pragma once

#include <vector>

#include "transports/cuda/fabric.h"

namespace tutti {

class DeviceArena {
 public:
  // `device` outlives this. Throws tuttiUnhandledCudaError.
  explicit DeviceArena(const CudaDevice& device);

  // Aligned for vectors; lives as long as the arena. Throws tuttiUnhandledCudaError.
  std::byte* Allocate(std::size_t bytes);
  // Everything allocated so far may be given out again.
  void Reset();
  // Copies of the host's bytes, when they are there.
  void Write(std::byte* to, const void* from, std::size_t bytes) { side_.Copy(to, from, bytes); }

 private:
  const CudaDevice& device_;
  SideStream side_;
  std::vector<CudaMemory> pieces_;
  std::size_t used_ = 0;  // of the last piece
};

}  // namespace tutti
