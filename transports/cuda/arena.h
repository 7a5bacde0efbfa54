// GPU memory that a communicator writes once and keeps: plans, scratch. Neither an allocation nor a write waits for
// kernels, because a kernel may wait for the very rank that allocates.
//
// Thread-safety: used by one thread at a time, but for bytes().
#pragma once

#include <atomic>
#include <vector>

#include "transports/cuda/fabric.h"

namespace tutti::cuda_transport {

class DeviceArena {
 public:
  // `device` outlives this. Throws tuttiUnhandledCudaError.
  explicit DeviceArena(const CudaDevice& device);

  // Aligned for vectors; lives as long as the arena. Throws tuttiUnhandledCudaError.
  std::byte* Allocate(std::size_t bytes);
  // Of the GPU's memory that it holds. From any thread.
  std::size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Makes everything allocated so far available again.
  void Reset();
  // Copies bytes from the host; kernels see them after Precede(). Does not wait.
  void Write(std::byte* to, const void* from, std::size_t bytes) { side_.CopyLater(to, from, bytes); }
  // Later work of the stream comes after all that was written. Waits only if the stream's work is `captured`.
  void Precede(CuStream stream, bool captured) { side_.Precede(stream, captured); }

 private:
  void Count();

  const CudaDevice& device_;
  SideStream side_;
  std::vector<CudaMemory> pieces_;
  std::size_t used_ = 0;  // of the last piece
  std::atomic<std::size_t> bytes_{0};
};

}  // namespace tutti::cuda_transport
