// What computing costs on a machine: the one table of it (link_constants.h in topology/ is the one of links). Calibrated
// once per type of machine, never per measurement; docs/simulator.md compares the outcome with published measurements.
//
// Thread-safety: constants and pure functions.
#pragma once

#include <array>
#include <cstddef>

#include "transports/slot.h"

namespace tutti {

// --- GPUs. A lane is a thread block of one launch. By wire (slot.h): line is 8-byte words of 4 data bytes and a flag;
// inline is 128-byte lines of 120 data bytes and a flag; bulk is a flag after the data.
inline constexpr std::array<double, kWires> kGpuWireEfficiency = {4.0 / 8, 120.0 / 128, 1};

struct GpuConstants {
  int sm;               // from this compute capability on
  double operation_us;  // launch, and the host's part of a call
  double step_us;       // poll a slot that is there, load, reduce, store
  double block_bandwidth;  // GB/s that one block of 512 threads reads and writes
  // What the wire adds to a link's way: the fences and barriers that make a slot's data visible before its flag.
  std::array<double, kWires> synchronisation_us;
  // What the host's proxy adds to a network's way: it polls a slot in pinned memory, posts it and polls the completion.
  std::array<double, kWires> proxy_us;
};

// Sources:
//   A100 (80). operation, step: nccl-tests issue 123 (8-byte ring all-reduce by 2 .. 8 A100s on one channel): its
//     straight line is 6.05 us + 1.975 us a hop; 0.7 of a hop are the two NVLink legs of link_constants.h, the rest is
//     the step. An empty kernel's launch and synchronisation alone take 5-6 us.
//     block: 2 x 10 GB/s of ring traffic on each of 24 channels saturate 240 GB/s (ND A100 v4 gets 231.6); NCCL's own
//     table of what a channel carries says 20 GB/s, which is 60 read and written (three operands a byte).
//     bulk: __threadfence_system and two block barriers, about 1 us each. inline: a warp's vote on each line, no fence.
//   H100 (90). The same but for the clock: 1.755 GHz to A100's 1.41 (data sheets).
//   proxy: NCCL's table of network latencies (2.7, 4 and 14 us by its three wires), which is a measurement of Ampere and
//     later; it has the card's own way in it, which link_constants.h has too: less 1.2 us.
inline constexpr std::array<GpuConstants, 2> kGpuGenerations = {{
    {80, 6.05, 1.275, 60, {0, 2, 2.5}, {1.5, 2.8, 12.8}},
    {90, 6.05, 1.025, 75, {0, 1.6, 2}, {1.5, 2.8, 12.8}},
}};
// Of the newest generation that is not newer; the oldest for what is older or unknown (0).
GpuConstants GpuConstantsOf(int sm);

// --- A host whose ranks share memory. Measured on 2 cores of a cloud server (docs/performance.md); read and written
// bytes both count.
inline constexpr double kHostOperationUs = 0.2;        // arguments, plan look-up, publication: the bench's 1-rank call
inline constexpr double kHostStepUs = 0.1;             // of run.cc, without waiting
inline constexpr double kHostLineUs = 0.1;             // a cache line's way to another core: round trip 124 ns and polling
inline constexpr double kHostYieldUs = 1.1;            // sched_yield to another process and on
inline constexpr double kHostCachedCoreBandwidth = 65;     // memcpy of 1 MiB by one core
inline constexpr double kHostCachedBandwidth = 106;        // by two, together
inline constexpr double kHostMemoryCoreBandwidth = 13.9;   // memcpy of 128 MiB by one core
inline constexpr double kHostMemoryBandwidth = 25.2;       // by two, together
inline constexpr std::size_t kHostCacheBytes = std::size_t{32} << 20;  // that two cores can count on

}  // namespace tutti
