// The kernels. Everything they do is in headers, which are compiled for the host as well (twin.h).
#include "executors/cuda/kernels/launch.h"

extern "C" __global__ void __launch_bounds__(tutti::kMaxThreads, tutti::kBlocksPerMultiprocessor)
    tutti_interpret(const __grid_constant__ tutti::DeviceLaunch launch) {
  __shared__ tutti::BlockState shared;
  tutti::Interpret<false>(launch, shared);
}

extern "C" __global__ void __launch_bounds__(tutti::kMaxThreads, tutti::kBlocksPerMultiprocessor)
    tutti_interpret_strided(const __grid_constant__ tutti::DeviceLaunch launch) {
  __shared__ tutti::BlockState shared;
  tutti::Interpret<true>(launch, shared);
}
