// The one table of a machine's computing costs (link_constants.h in topology/ is the one of links). Calibrated once per
// type of machine, never per measurement; docs/notebook/simulator/published.md compares the outcome with published
// measurements.
//
// Thread-safety: constants and pure functions.
#pragma once

#include <array>

#include "transports/ring/slot.h"

namespace tutti::cost_model {

// Blocks of a launch begin one after the other. This is a guess, not a measurement: a microsecond for a launch of 24.
// The value matters little (from a quarter of it on, large messages change by less than 7 %). At zero, channels would
// move in a lockstep that no real machine keeps.
inline constexpr double kGpuChannelSkewUs = 0.04;
// Time of a network proxy's thread per message sent or received: it polls its queue in memory that the GPU writes,
// posts a work request (one more to flush a received message), and polls for its completion. perftest's ib_send_bw and
// ib_write_bw post 2 to 4 million 8-byte messages a second from a core that does nothing else and polls one queue.
inline constexpr double kProxyMessageUs = 1.0;

// Shares of the bandwidth that a GPU's data sheet gives for its memory, seen on an H100 with 1 GiB
// (docs/notebook/performance/shared_gpu.md). The driver's copy reaches 0.89. The model takes that for blocks that share
// a step (Schedule::one_launch), which reached 0.77 to 0.87. Blocks that have a contiguous part each, as channels do,
// reached 0.75 (all-reduce by 2 ranks).
inline constexpr double kGpuMemoryInTurn = 0.89, kGpuMemoryApart = 0.75;
// The load of one access on such a memory. The unit is a slot, which blocks that have parts of their own write and read.
constexpr double SlotsOfAnAccess(bool in_turn) { return (in_turn ? kGpuMemoryApart / kGpuMemoryInTurn : 1) / 2; }

// A lane is a thread block of one launch. By protocol (slot.h): line is 8-byte words of 4 data bytes and a flag;
// inline is 128-byte lines of 120 data bytes and a flag; bulk is a flag after the data.
inline constexpr std::array<double, ring::kProtocols> kGpuProtocolEfficiency = {4.0 / 8, 120.0 / 128, 1};

struct GpuConstants {
  int sm;                  // from this compute capability on
  double operation_us;     // launch, and the host's part of a call
  double step_us;          // poll a slot that is there, load, reduce, store
  double block_bandwidth;  // GB/s that one block of kNcclBlockThreads (machine_of_system.h) reads and writes
  // Added by the protocol to a link's latency: fences and barriers make a slot's data visible before its flag.
  std::array<double, ring::kProtocols> synchronisation_us;
  // The share of NVLink's bandwidth (link_constants.h) that sums and multicasts of an NVSwitch get; 0: it has none.
  double in_switch_efficiency;
  // Added by the host's proxy to a network's latency: it polls a slot in pinned memory, posts it, polls the completion.
  std::array<double, ring::kProtocols> proxy_us;
};

// Sources:
//   A100 (80). operation and step: nccl-tests issue 123 (8-byte ring all-reduce by 2 .. 8 A100s on one channel), a
//     straight line of 1.975 us a hop. The two NVLink legs of link_constants.h are 0.7 of a hop, the step is the rest.
//     The line at no hop, less the last rank's step, is the launch (an empty kernel's launch and its synchronisation
//     measure 4 to 6 us).
//     block: NCCL's table of one channel's bandwidth says 20 GB/s on Ampere and 36.7 on Hopper, for each of the three
//     operands that a ring's step touches.
//     synchronisation: bulk waits for all earlier stores of all threads, twice - before the flag is written and before
//     the slot is given back - by __threadfence_system and two block barriers: the best fit of ND A100 v4's 16 to
//     256 MiB. inline: a vote of the warp on each line and no fence: NCCL's table has 1.9 us for such a hop where a
//     line has 0.6.
//   H100 (90). operation: A100's. step: such that a hop of a ring of 1 KiB takes the 0.83 us of link_constants.h.
//     synchronisation: inline is NCCL's table, a hop of 1.9 us where a line has 0.6. bulk: a hop takes 7.3 us, A100's 9
//     shortened by the clock (1.755 GHz to 1.41, data sheets); no H100 has been compared for this alone.
//   B200 (100). As H100, but for the switch.
//   in_switch: NCCL's tuner counts on 0.85 of the links on Hopper and 0.74 on Blackwell for NVLS.
//   proxy: NCCL's table of network latencies: 5, 8.5 and 14 us a hop by its three protocols, less the card's own way
//   (1.2),
//     which link_constants.h has.
inline constexpr std::array<GpuConstants, 3> kGpuGenerations = {{
    {80, 4.775, 1.275, 60, {0, 2, 7}, 0, {3.8, 7.3, 12.8}},
    {90, 4.775, 0.43, 110, {0, 1.3, 6.5}, 0.85, {3.8, 7.3, 12.8}},
    {100, 4.775, 0.43, 110, {0, 1.3, 6.5}, 0.74, {3.8, 7.3, 12.8}},
}};
// Returns the newest generation that is not newer than `sm`; the oldest if `sm` is older or unknown (0).
GpuConstants GpuConstantsOf(int sm);

}  // namespace tutti::cost_model
