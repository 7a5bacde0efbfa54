// The kernel. All its code is in headers, which are also compiled for the host (host_kernel.h).
#include "executors/cuda/kernels/launch.h"

extern "C" __global__ void __launch_bounds__(tutti::cuda_kernels::kMaxThreads,
                                             tutti::cuda_kernels::kBlocksPerMultiprocessor)
    tutti_interpret(const __grid_constant__ tutti::cuda_kernels::DeviceLaunch launch) {
  __shared__ tutti::cuda_kernels::BlockState shared;
  tutti::cuda_kernels::Interpret(launch, shared);
}
