// Binomial trees, turned so that any rank can be the root: the fewest rounds for rooted collectives. In gather and
// scatter every block travels in a slot of its own.
//
// Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH" (2005).
#pragma once

#include "algorithms/builders/build.h"

namespace tutti::builders {

// REQUIRES: broadcast, reduce, gather or scatter; nranks > 1.
Schedule BuildBinomial(const ScheduleRequest& request);

}  // namespace tutti::builders
