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

// Whether path `a` is nearer than `b`: the nearer class, then the wider, then the one of fewer links.
bool Nearer(const Path& a, const Path& b);
// The nearest of those candidates that can be reached without the network; in order.
std::vector<int> Nearest(const std::vector<Path>& paths, const std::vector<int>& candidates);

// By RingEnds: the NICs (devices) that serve each end, nearest first come. Each end has one of its nearest NICs;
// equally near NICs are shared evenly. NICs left over go, as evenly, to their nearest ends. Empty lists if the host has
// no NIC.
std::vector<std::vector<int>> NearestNics(const System& system, int host);

}  // namespace tutti::topology
