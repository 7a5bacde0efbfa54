// How the threads of a block share the units of a loop - vectors, or elements - so that each has several loads in
// flight. Full memory bandwidth needs that: at a latency of some 600 ns, 3.3 TB/s means 2 MB in flight, 16 KB on each
// of 132 multiprocessors, and a few times that because loads come in bursts.
//
// Thread-safety: called by all threads of a block.
#pragma once

#include "executors/cuda/kernels/device.h"

namespace tutti::cuda_kernels {

// `count` units in a row from `from_byte` on, except for a gap: unit `gap_at` and those after it lie `gap` units
// further on. 32 bits: a chunk is at most a GiB (kLongestChunk).
struct Units {
  std::uint32_t count;
  std::uint32_t from_byte = 0;
  std::uint32_t gap_at = 0;
  std::uint32_t gap = 0;
};

// The kMany units that one thread takes at a time, spaced so that a warp's units are adjacent. Past the end, the thread
// loads its first unit again and does not store it: a conditional load would wait for the one before it, and a loop for
// the rest would take a trip to memory for each unit.
template <typename Unit, std::uint32_t kMany>
class Batch {
 public:
  TUTTI_DEVICE Batch(const Units& units, std::uint32_t first) : first_(first), count_(units.count) {
    TUTTI_UNROLL
    for (std::uint32_t m = 0; m < kMany; ++m) {
      const std::uint32_t u = Is(m) ? first + m * ThreadCount() : first;
      at_byte_[m] = units.from_byte + (u < units.gap_at ? u : u + units.gap) * static_cast<std::uint32_t>(sizeof(Unit));
    }
  }

  template <typename Places>
  TUTTI_DEVICE void Load(const Places& from, Unit (&to)[kMany]) const {
    const std::byte* places[kMany];
    TUTTI_UNROLL
    for (std::uint32_t m = 0; m < kMany; ++m) places[m] = from(at_byte_[m]);
    TUTTI_UNROLL
    for (std::uint32_t m = 0; m < kMany; ++m) to[m] = LoadGlobal<Unit>(places[m]);
  }
  template <typename Places>
  TUTTI_DEVICE void Store(const Places& to, const Unit (&from)[kMany]) const {
    std::byte* places[kMany];
    TUTTI_UNROLL
    for (std::uint32_t m = 0; m < kMany; ++m) places[m] = to(at_byte_[m]);
    TUTTI_UNROLL
    for (std::uint32_t m = 0; m < kMany; ++m) {
      if (Is(m)) StoreGlobal(places[m], from[m]);
    }
  }

 private:
  TUTTI_DEVICE bool Is(std::uint32_t m) const { return m == 0 || first_ + m * ThreadCount() < count_; }

  std::uint32_t first_, count_;
  std::uint32_t at_byte_[kMany];
};

// The other blocks that share a move; zero: this block moves it alone. They take batches in turn, so that every batch
// begins at a multiple of its length and all blocks have as much to do. On an H100, an all-reduce whose blocks have a
// contiguous part each, from any cache line on, takes 9 % longer (docs/notebook/performance/shared_gpu.md).
struct Share {
  std::uint32_t before, others;  // blocks
};

// Calls body(batch) for all of a thread's batches.
template <typename Unit, std::uint32_t kMany, typename Body>
TUTTI_DEVICE void ForEachBatch(const Units& units, const Share& share, Body&& body) {
  TUTTI_ROLLED
  for (std::uint32_t first = ThreadIndex() + share.before * kMany * ThreadCount(); first < units.count;
       first += (share.others + 1) * kMany * ThreadCount()) {
    body(Batch<Unit, kMany>(units, first));
  }
}

}  // namespace tutti::cuda_kernels
