// Machines of GPUs to price and simulate on, from a topology's system. (Ranks on hosts: host_machine.h.)
//
// Thread-safety: pure functions.
#pragma once

#include "selection/cost_model/machine.h"
#include "topology/graph/system.h"

namespace tutti::cost_model {

// Threads of a block that the constants are of: NCCL's. A block's bandwidth is that of its loads in flight, so a smaller
// block has its share of it.
inline constexpr int kNcclBlockThreads = 512;

// `nodes` copies of the system's host 0. Its first `ranks_per_node` GPUs (0: all) have a rank each, in the order of
// their numbers. Resources are the host's directed links and its ports' ways to the network, routes are paths.h's, and
// each rank uses the NICs of its rail (rails.h).
// Throws if there are fewer GPUs, no path between two, or several nodes and no NIC.
//
// `block_threads`: of the blocks that run lanes; NCCL's by default.
Machine MachineOfSystem(const topology::System& system, int nodes, int ranks_per_node = 0,
                        int block_threads = kNcclBlockThreads);

// `nranks` ranks that share one GPU of compute capability `sm`, whose memory reads and writes `memory_bandwidth` GB/s.
Machine MachineOfOneGpu(int nranks, int sm, double memory_bandwidth, int block_threads = kNcclBlockThreads);

}  // namespace tutti::cost_model
