// Rings through a host's GPUs (its NUMA nodes, where it has no GPU), as many as its links carry side by side: every hop
// takes the widest path, and uses up the ring's bandwidth on each link that it crosses.
//
// Over several hosts a ring enters a host by a NIC near its first GPU and leaves it by a NIC near its last one. Best is
// the same NIC: all its network hops are then on one rail, NIC i to NIC i, which clusters join by the fewest switches.
// Where a NIC is near one GPU only, the ring leaves by another NIC, and every second host is visited backwards, so that
// each hop still stays on one rail:
//
//      host 0           host 1           host 2           host 3
//      GPU0 ... GPU7    GPU7 ... GPU0    GPU0 ... GPU7    GPU7 ... GPU0
//   in 0           7 -- 7           0 -- 0           7 -- 7           0 -- and back to host 0, NIC 0
//
// With an odd number of hosts the one hop that closes such a ring changes rails.
//
// How: links are priced by the share in use; the cheapest ring is taken with its bandwidth, and its reverse, until none
// fits. That is tried for each bandwidth that divides a link's without much waste, the most promising first. Where the
// result falls short of what the links could carry, an exhaustive search of bounded effort follows.
//
// Thread-safety: value types and pure functions. Deterministic.
#pragma once

#include <vector>

#include "topology/graph/system.h"

namespace tutti::search {

struct Ring {
  std::vector<int> order = {};  // devices
  int nic_in = -1;              // devices; -1: the ring stays on the host
  int nic_out = -1;
  std::vector<int> links =
      {};  // all links crossed, from the first device (or the network) round to it, once per crossing
};

struct Rings {
  std::vector<Ring> rings = {};
  double bandwidth = 0;  // GB/s of each
  double total() const { return bandwidth * static_cast<double>(rings.size()); }
};

// Closed rings inside one host. None if there are fewer than two GPUs, or no way through all of them.
Rings SearchRings(const topology::System& system, int host);

// The part on one host of rings over several such hosts. None without a NIC.
Rings SearchClusterRings(const topology::System& system, int host);

// Carries the rings that SearchClusterRings found on host 0 of a system of equal hosts through all hosts. Returns the
// devices that each ring visits, in order. Throws tuttiInvalidArgument if the hosts differ.
std::vector<std::vector<int>> RingsAcross(const topology::System& system, const Rings& on_host0);

}  // namespace tutti::search
