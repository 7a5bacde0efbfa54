// A host kernel: a kernel's source compiled for the host, with an ordinary thread for each CUDA thread. Tests,
// also under a thread sanitizer, can then run a GPU's code without a GPU. None of this is in the library; the
// fake GPU (testing/fake_gpu) launches host kernels in place of kernels.
//
// Thread-safety: a HostKernelThread belongs to its thread.
#pragma once

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::cuda_kernels {

// A CUDA thread's indices, barrier and shared memory.
struct HostKernelThread {
  std::uint32_t thread = 0;           // threadIdx.x
  std::uint32_t threads = 1;          // blockDim.x
  std::uint32_t block = 0;            // blockIdx.x
  std::uint32_t blocks = 1;           // gridDim.x
  std::barrier<>* barrier = nullptr;  // of the block's threads; null in a block of one
  std::byte* shared = nullptr;  // __shared__ memory of the block: HostKernel::shared_bytes, initially zero
};

// The places that a multicast address stands for (multimem.h). The fake GPU begins multicast memory at a
// multiple of kRegion. The places follow at distances of kStride, and at kCountAt is their number.
class HostMulticast {
 public:
  static constexpr std::uintptr_t kRegion = std::uintptr_t{1} << 35, kStride = std::uintptr_t{1} << 30;
  static constexpr std::uintptr_t kCountAt = kRegion - kStride;
  static constexpr std::uint32_t kMostPlaces = kRegion / kStride - 2;

  explicit HostMulticast(const std::byte* address)
      : address_(reinterpret_cast<std::uintptr_t>(address)), region_(address_ / kRegion * kRegion) {}
  std::uint32_t count() const { return *reinterpret_cast<const std::uint32_t*>(region_ + kCountAt); }
  std::byte* At(std::uint32_t place) const { return reinterpret_cast<std::byte*>(address_ + (1 + place) * kStride); }

 private:
  std::uintptr_t address_, region_;
};

struct HostKernel {
  const char* name;             // as the module has it
  std::size_t parameter_bytes;  // of the one struct that the kernel takes
  std::size_t shared_bytes;     // of __shared__ memory
  // Runs this thread's part. Called once in each of the grid's threads, which must all run at the same time.
  void (*run)(const HostKernelThread& self, const void* parameter);
};

// All host kernels.
std::span<const HostKernel> HostKernels();

}  // namespace tutti::cuda_kernels
