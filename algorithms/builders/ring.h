// Ring: every rank sends to the next rank and receives from the previous one, so each link carries each byte at most
// twice and all links are busy all the time: bandwidth-optimal, and nranks trips long.
//
// Patarasuk and Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations" (2009). Broadcast and
// reduce are the ring cut open at the root: a pipelined chain.
#pragma once

#include "algorithms/builders/build.h"

namespace tutti::builders {

// REQUIRES: all_reduce, reduce_scatter, all_gather, broadcast or reduce; nranks > 1. Channel c visits the ranks in the
// order of the rank layout's ring c, or node by node where it names none, or 0, 1, ..., nranks-1 where there is no
// rank layout.
Schedule BuildRing(const ScheduleRequest& request);

}  // namespace tutti::builders
