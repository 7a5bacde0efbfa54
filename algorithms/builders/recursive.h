// Recursive halving and doubling: partners at distance n/2, n/4, ..., 1 exchange the half of the blocks that the other
// is responsible for, and come back at distance 1, 2, ..., n/2 with the results. Logarithmically many partners; every
// block travels in a slot of its own.
//
// Rabenseifner, "Optimization of Collective Reduction Operations" (2004); Thakur, Rabenseifner and Gropp, "Optimization
// of Collective Communication Operations in MPICH" (2005). Where nranks is no power of two, each surplus rank is first
// folded into a neighbour, which works for both.
#pragma once

#include "algorithms/builders/build.h"

namespace tutti::builders {

// REQUIRES: all_reduce, reduce_scatter or all_gather; nranks > 1.
Schedule BuildRecursive(const ScheduleRequest& request);

}  // namespace tutti::builders
