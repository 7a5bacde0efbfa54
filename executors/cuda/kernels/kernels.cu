// The kernels. All their code is in headers, which are also compiled for the host (twin.h).
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
