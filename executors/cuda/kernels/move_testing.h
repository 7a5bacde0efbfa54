// Shared by tests of the kernels' data path: a block of host kernels, and the move it executes.
//
// Thread-safety: RunBlock is for one thread.
#pragma once

#include <cstring>
#include <thread>
#include <vector>

#include "executors/cuda/kernels/move.h"
#include "executors/host/kernels/reduce_reference.h"

namespace tutti::cuda_kernels {

// Runs `part` as every thread of one block.
template <typename Part>
void RunBlock(std::uint32_t threads, Part part) {
  std::barrier<> barrier(threads);
  std::atomic<bool> any{false};
  std::vector<std::thread> running;
  for (std::uint32_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      const HostKernelThread self{.thread = t, .threads = threads, .barrier = &barrier};
      this_kernel_thread = &self;
      any_of_block = &any;
      part();
    });
  }
  for (auto& thread : running) thread.join();
}

struct Arithmetic {
  tuttiRedOp_t op = tuttiSum;
  std::uint64_t scaled = 0;
  host_kernels::Scalar scalar = {};
  int divisor = 0;
};

inline Move MoveOf(tuttiDataType_t type, const Arithmetic& arithmetic, const std::vector<const void*>& sources,
                   std::size_t count) {
  static const std::uint32_t kGoOn = 0;
  Move move{};
  for (const void* source : sources) move.sources[move.source_count++] = static_cast<const std::byte*>(source);
  move.bytes = count * SizeOf(type);
  move.stop = move.abort = &kGoOn;
  move.reducer = ReducerOf(type, arithmetic.op);
  move.arithmetic = true;
  move.scaled = arithmetic.scaled;
  std::memcpy(&move.scalar, arithmetic.scalar.bytes.data(), sizeof move.scalar);
  move.divisor = arithmetic.divisor;
  return move;
}

}  // namespace tutti::cuda_kernels
