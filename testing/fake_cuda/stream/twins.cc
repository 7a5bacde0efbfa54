// The twins of the library's own kernels, and of the litmus tests: the same source, compiled for the host.
#include <array>
#include <new>

#include "executors/cuda/kernels/launch.h"
#include "executors/cuda/kernels/twin.h"
#include "tests/gpu/litmus.h"

namespace tutti {
namespace {

struct Shared {
  std::atomic<bool> any;
  BlockState state;
};

template <bool kStrided>
void RunInterpreter(const TwinThread& self, const void* parameter) {
  auto& shared = *reinterpret_cast<Shared*>(self.shared);
  this_twin = &self;
  any_of_block = &shared.any;
  Interpret<kStrided>(*static_cast<const DeviceLaunch*>(parameter), shared.state);
}

void RunLitmus(const TwinThread& self, const void* parameter) {
  this_twin = &self;
  any_of_block = reinterpret_cast<std::atomic<bool>*>(self.shared);
  testing::Litmus(*static_cast<const testing::LitmusLaunch*>(parameter));
}

constexpr std::array kTwins = {
    TwinKernel{kInterpreterName, sizeof(DeviceLaunch), sizeof(Shared), RunInterpreter<false>},
    TwinKernel{kStridedInterpreterName, sizeof(DeviceLaunch), sizeof(Shared), RunInterpreter<true>},
    TwinKernel{testing::kLitmusName, sizeof(testing::LitmusLaunch), sizeof(std::atomic<bool>), RunLitmus}};

}  // namespace

std::span<const TwinKernel> TwinKernels() { return kTwins; }

}  // namespace tutti
