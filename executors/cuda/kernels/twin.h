// A kernel's twin: the same source compiled for the host, each CUDA thread an ordinary thread. What a GPU would run can
// then be tested, and raced against a thread sanitizer, where there is no GPU. Nothing of this is in the library; a
// stand-in of the CUDA driver (testing/fake_cuda) launches twins in place of kernels.
//
// Thread-safety: a TwinThread belongs to its thread.
#pragma once

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

// What a CUDA thread knows of itself.
struct TwinThread {
  std::uint32_t thread = 0;           // threadIdx.x
  std::uint32_t threads = 1;          // blockDim.x
  std::uint32_t block = 0;            // blockIdx.x
  std::uint32_t blocks = 1;           // gridDim.x
  std::barrier<>* barrier = nullptr;  // of the block's threads; null in a block of one
  std::byte* shared = nullptr;  // __shared__ memory of the block, TwinKernel::shared_bytes of it, zero to begin with
};

struct TwinKernel {
  const char* name;             // as the module has it
  std::size_t parameter_bytes;  // of the one struct that the kernel takes
  std::size_t shared_bytes;     // of __shared__ memory
  // Runs this thread's part. Called once in each of the grid's threads, all of which must run at the same time.
  void (*run)(const TwinThread& self, const void* parameter);
};

// All of them.
std::span<const TwinKernel> TwinKernels();

}  // namespace tutti
