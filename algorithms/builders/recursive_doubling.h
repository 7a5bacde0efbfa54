// Recursive doubling: partners at distance 1, 2, 4, ... exchange all that they have summed so far, so that every rank
// has everything after log2(n) exchanges. It moves log2(n) times the message, and no rank waits more often than that:
// this suits small messages where a wait is expensive, as between hosts.
//
// Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH" (2005). Where nranks
// is no power of two, each surplus rank is first folded into a neighbour.
#pragma once

#include "algorithms/builders/build.h"

namespace tutti::builders {

// REQUIRES: all_reduce; nranks > 1.
Schedule BuildRecursiveDoubling(const ScheduleRequest& request);

}  // namespace tutti::builders
