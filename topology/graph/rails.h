// Which NIC serves which GPU. A rail is what joins the NICs of one number on all hosts; GPU i of every host on its
// nearest NIC means that the network part of an operation stays on rails.
//
// Thread-safety: pure functions. Deterministic.
#pragma once

#include <vector>

#include "topology/graph/paths.h"
#include "topology/graph/system.h"

namespace tutti {

// Who takes part in a collective on a host: its GPUs, or its NUMA nodes where it has none.
std::vector<int> RingEnds(const System& system, int host);

// Whether path `a` is nearer than `b`: the nearer class, then the wider, then the one of fewer links.
bool Nearer(const Path& a, const Path& b);
// Those of the candidates that no other is nearer than, among those that can be reached without the network; in order.
std::vector<int> Nearest(const std::vector<Path>& paths, const std::vector<int>& candidates);

// By RingEnds: the NICs (devices) that serve it, nearest first come. Each has one of its nearest NICs, shared evenly
// among those that are equally near; NICs left over go, as evenly, to the ends nearest to them. Empty lists if the host
// has no NIC.
std::vector<std::vector<int>> NearestNics(const System& system, int host);

}  // namespace tutti
