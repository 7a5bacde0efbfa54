// The capacity of a host's own links, with which rings are compared.
//
// Thread-safety: pure functions.
#pragma once

#include "topology/graph/system.h"

namespace tutti::topology {

// GB/s that a GPU (or NUMA node) can send at most on the links it would use to its peers: all its NVLinks, or, if it
// has none, its PCI (or socket) links.
double SendCapacity(const System& system, int device);
// The smallest such rate of a host's GPUs (or NUMA nodes): no closed ring can carry more. 0 without any.
double RingCapacity(const System& system, int host);
// GB/s of all network ports of a host at their nominal speed, one direction.
double PortCapacity(const System& system, int host);
// As above, but no port counts for more than the path from its card to the nearest GPU (or NUMA node).
double ReachablePortCapacity(const System& system, int host);

}  // namespace tutti::topology
