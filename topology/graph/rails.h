// The NICs that serve each GPU. A rail joins the NICs of one number on all hosts; with GPU i of every host on its
// nearest NIC, the network part of an operation stays on rails.
//
// Thread-safety: pure functions. Deterministic.
#pragma once

#include <vector>

#include "topology/graph/paths.h"
#include "topology/graph/system.h"

namespace tutti::topology {

// The participants of a collective on a host: its GPUs, or its NUMA nodes where it has none.
std::vector<int> RingEnds(const System& system, int host);

// Whether the NIC at that distance reads and writes the GPU's memory by itself (GPUDirect RDMA) on a described machine, as far
// as the description says and as NCCL does. Otherwise data go through memory of the host. Farther away they would cross a
// processor, which some pass on slowly.
inline bool GoesDirect(const Device& gpu, const Device& nic, PathClass distance) {
  return gpu.gdr && nic.gdr && distance <= PathClass::PXB;
}

// Whether path `a` is nearer than `b`: the nearer class, then the wider, then the one of fewer links.
bool Nearer(const Path& a, const Path& b);
// The nearest of those candidates that can be reached without the network; in order.
std::vector<int> Nearest(const std::vector<Path>& paths, const std::vector<int>& candidates);

// The NICs (devices) that serve each of these devices of a host. Each end has one of its nearest NICs, which comes first;
// equally near NICs are shared evenly. NICs left over go, as evenly, to their nearest ends. Empty lists if the host has
// no NIC.
std::vector<std::vector<int>> NearestNics(const System& system, int host, const std::vector<int>& ends);
// By RingEnds.
inline std::vector<std::vector<int>> NearestNics(const System& system, int host) {
  return NearestNics(system, host, RingEnds(system, host));
}
// The same for the host's ranks, each of which is at one of its devices: nearest first, but ranks at the same device begin
// on different NICs of it.
std::vector<std::vector<int>> NicsOfRanks(const System& system, int host, const std::vector<int>& device_of);

}  // namespace tutti::topology
