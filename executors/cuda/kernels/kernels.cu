// The kernels. All their code is in headers, which are also compiled for the host (host_kernel.h).
#include "executors/cuda/kernels/launch.h"
#include "executors/cuda/kernels/signals.h"

extern "C" __global__ void __launch_bounds__(tutti::cuda_kernels::kMaxThreads,
                                             tutti::cuda_kernels::kBlocksPerMultiprocessor)
    tutti_interpret(const __grid_constant__ tutti::cuda_kernels::DeviceLaunch launch) {
  __shared__ tutti::cuda_kernels::BlockState shared;
  tutti::cuda_kernels::Interpret(launch, shared);
}

extern "C" __global__ void __launch_bounds__(1) tutti_signals(const __grid_constant__ tutti::cuda_kernels::SignalLaunch launch) {
  tutti::cuda_kernels::RunSignals(launch);
}
