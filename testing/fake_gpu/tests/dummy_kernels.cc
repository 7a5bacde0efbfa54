// Kernels for tests of the fake GPU itself.
#include "testing/fake_gpu/tests/dummy_kernels.h"

#include <array>
#include <atomic>
#include <thread>

#include "executors/cuda/kernels/host_kernel.h"

namespace tutti::cuda_kernels {
namespace {

using fake_gpu::Meeting;
using fake_gpu::Sum;

// Each thread adds its own numbers; thread 0 of a block writes the block's sum, after the barrier.
void RunSum(const HostKernelThread& self, const void* parameter) {
  const auto& sum = *static_cast<const Sum*>(parameter);
  const std::uint32_t stride = self.threads * self.blocks;
  std::uint64_t mine = 0;
  for (auto i = self.block * self.threads + self.thread; i < sum.count; i += stride) mine += sum.values[i];
  std::atomic_ref(sum.per_block[self.block]).fetch_add(mine);
  if (self.barrier != nullptr) self.barrier->arrive_and_wait();
  if (self.thread == 0) std::atomic_ref(*sum.total).fetch_add(std::atomic_ref(sum.per_block[self.block]).load());
}

// Returns when the expected number of threads have arrived, from any grids.
void RunMeeting(const HostKernelThread& /*self*/, const void* parameter) {
  const auto& meeting = *static_cast<const Meeting*>(parameter);
  std::atomic_ref here(*meeting.here);
  here.fetch_add(1);
  while (here.load() < meeting.expected) std::this_thread::yield();
}

constexpr std::array kHostKernels = {HostKernel{"sum", sizeof(Sum), 0, RunSum},
                                     HostKernel{"meeting", sizeof(Meeting), 0, RunMeeting}};

}  // namespace

std::span<const HostKernel> HostKernels() { return kHostKernels; }

}  // namespace tutti::cuda_kernels
