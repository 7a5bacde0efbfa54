// GPU memory that a communicator writes once and keeps: plans, scratch. It is taken ahead in large pieces, because an
// allocation may wait for kernels, and a kernel may wait for the very rank that allocates.
//
// Thread-safety: used by one thread at a time.
#pragma once

#include <vector>

#include "transports/cuda/fabric.h"

namespace tutti::cuda_transport {

class DeviceArena {
 public:
  // `device` outlives this. Throws tuttiUnhandledCudaError.
  explicit DeviceArena(const CudaDevice& device);

  // Aligned for vectors; lives as long as the arena. Throws tuttiUnhandledCudaError.
  std::byte* Allocate(std::size_t bytes);
  // Makes everything allocated so far available again.
  void Reset();
  // Copies bytes from the host; returns when they have arrived.
  void Write(std::byte* to, const void* from, std::size_t bytes) { side_.Copy(to, from, bytes); }

 private:
  const CudaDevice& device_;
  SideStream side_;
  std::vector<CudaMemory> pieces_;
  std::size_t used_ = 0;  // of the last piece
};

}  // namespace tutti::cuda_transport
