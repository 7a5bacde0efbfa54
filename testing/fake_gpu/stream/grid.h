// A grid of a host kernel, run as threads.
//
// Thread-safety: all of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "executors/cuda/kernels/host_kernel.h"

namespace tutti::fake_gpu {

struct GridShape {
  std::uint32_t blocks;
  std::uint32_t threads;  // that run a block
  std::uint32_t at_once;  // blocks that run at the same time; a later one starts when an earlier one has ended
};

// Returns when all blocks are done.
void RunGrid(const cuda_kernels::HostKernel& kernel, const GridShape& shape, const std::byte* parameter);

}  // namespace tutti::fake_gpu
