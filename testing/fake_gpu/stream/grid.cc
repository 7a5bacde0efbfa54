#include "testing/fake_gpu/stream/grid.h"

#include <algorithm>
#include <barrier>
#include <memory>
#include <vector>

#include "testing/fake_gpu/stream/thread_pool.h"

namespace tutti::fake_gpu {
namespace {

// A place where blocks run one after the other, each with shared memory that is zero.
class Place {
 public:
  Place(const cuda_kernels::HostKernel& kernel, const GridShape& shape)
      : kernel_(kernel),
        shape_(shape),
        barrier_(shape.threads > 1 ? std::make_unique<std::barrier<>>(shape.threads) : nullptr),
        // Aligned for any struct.
        shared_((kernel.shared_bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t)) {}

  void Run(std::uint32_t block, std::uint32_t thread, const std::byte* parameter) {
    if (block >= shape_.at_once) Clear(thread);
    const cuda_kernels::HostKernelThread self{.thread = thread,
                                              .threads = shape_.threads,
                                              .block = block,
                                              .blocks = shape_.blocks,
                                              .barrier = barrier_.get(),
                                              .shared = reinterpret_cast<std::byte*>(shared_.data())};
    kernel_.run(self, parameter);
  }

 private:
  void Clear(std::uint32_t thread) {
    if (barrier_ != nullptr) barrier_->arrive_and_wait();
    if (thread == 0) std::fill(shared_.begin(), shared_.end(), std::max_align_t{});
    if (barrier_ != nullptr) barrier_->arrive_and_wait();
  }

  const cuda_kernels::HostKernel& kernel_;
  const GridShape& shape_;
  const std::unique_ptr<std::barrier<>> barrier_;
  std::vector<std::max_align_t> shared_;
};

}  // namespace

void RunGrid(const cuda_kernels::HostKernel& kernel, const GridShape& shape, const std::byte* parameter) {
  std::vector<std::unique_ptr<Place>> places(std::min(shape.blocks, shape.at_once));
  for (auto& place : places) place = std::make_unique<Place>(kernel, shape);
  RunTogether(places.size() * shape.threads, [&](std::size_t number) {
    const auto thread = static_cast<std::uint32_t>(number % shape.threads);
    Place& place = *places[number / shape.threads];
    for (auto block = static_cast<std::uint32_t>(number / shape.threads); block < shape.blocks;
         block += static_cast<std::uint32_t>(places.size())) {
      place.Run(block, thread, parameter);
    }
  });
}

}  // namespace tutti::fake_gpu
