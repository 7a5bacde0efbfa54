// The host kernels of the library's own kernels, and of the litmus tests: the same source, compiled for the host.
#include <array>
#include <new>

#include "executors/cuda/kernels/host_kernel.h"
#include "executors/cuda/kernels/launch.h"
#include "executors/cuda/kernels/signals.h"
#include "tests/gpu/litmus.h"

namespace tutti::cuda_kernels {
namespace {

struct Shared {
  std::atomic<bool> any;
  BlockState state;
};

void RunInterpreter(const HostKernelThread& self, const void* parameter) {
  auto& shared = *reinterpret_cast<Shared*>(self.shared);
  this_kernel_thread = &self;
  any_of_block = &shared.any;
  Interpret(*static_cast<const DeviceLaunch*>(parameter), shared.state);
}

void RunSignalsOnHost(const HostKernelThread& self, const void* parameter) {
  this_kernel_thread = &self;
  RunSignals(*static_cast<const SignalLaunch*>(parameter));
}

void RunLitmus(const HostKernelThread& self, const void* parameter) {
  this_kernel_thread = &self;
  any_of_block = reinterpret_cast<std::atomic<bool>*>(self.shared);
  testing::Litmus(*static_cast<const testing::LitmusLaunch*>(parameter));
}

constexpr std::array kHostKernels = {
    HostKernel{kInterpreterName, sizeof(DeviceLaunch), sizeof(Shared), RunInterpreter},
    HostKernel{kSignalsName, sizeof(SignalLaunch), sizeof(std::atomic<bool>), RunSignalsOnHost},
    HostKernel{testing::kLitmusName, sizeof(testing::LitmusLaunch), sizeof(std::atomic<bool>), RunLitmus}};

}  // namespace

std::span<const HostKernel> HostKernels() { return kHostKernels; }

}  // namespace tutti::cuda_kernels
