// Machines of GPUs to price and simulate on, from a topology's system. (Ranks on hosts: host_machine.h.)
//
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "selection/cost_model/machine.h"
#include "topology/graph/system.h"

namespace tutti::cost_model {

// Threads of a block that the constants are of: NCCL's. A block's bandwidth is that of its loads in flight, so a smaller
// block has its share of it.
inline constexpr int kNcclBlockThreads = 512;
// What runs lanes; by default NCCL, whose slots between hosts have every protocol.
struct Blocks {
  int threads = kNcclBlockThreads;
  bool bulk_between_hosts = false;
};

// `nodes` copies of the system's host 0, each with a rank on each of these GPUs (devices), in this order. Resources are the
// host's directed links and its ports' ways to the network, routes are paths.h's, and each rank uses the NICs of its rail
// (rails.h), through memory of the host unless they reach the GPU's. Rings go over several nodes on rails. On one node they
// follow its links, if every GPU has a rank and rings in the order of the ranks would leave links idle.
// Throws if there is no GPU, if two ranks are on one, if there is no path between two, or with several nodes no NIC.
//
// `direct`: whether NICs reach GPUs' memory, which ranks know that have tried; by default, where the system says so
// (GoesDirect).
Machine MachineOfSystem(const topology::System& system, int nodes, const std::vector<int>& gpus,
                        const Blocks& blocks = {}, std::optional<bool> direct = {});
// The same with the node's first `ranks_per_node` GPUs (0: all), in the order of their numbers. Throws if there are fewer.
Machine MachineOfSystem(const topology::System& system, int nodes, int ranks_per_node = 0, const Blocks& blocks = {});

// `nranks` ranks that share one GPU of compute capability `sm`, whose memory reads and writes `memory_bandwidth` GB/s.
Machine MachineOfOneGpu(int nranks, int sm, double memory_bandwidth, const Blocks& blocks = {});

}  // namespace tutti::cost_model
