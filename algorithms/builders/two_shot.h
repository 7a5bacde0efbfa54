// Two-shot: direct reduce-scatter, then direct all-gather (or gather to the root). Each rank reduces one block, so the
// arithmetic is divided by nranks at the price of a second trip: the split of Rabenseifner, "Optimization of Collective
// Reduction Operations" (2004), with every pair meeting directly instead of over a hypercube.
#pragma once

#include "algorithms/builders/build.h"

namespace tutti::builders {

// Connections in each channel of an all-reduce without posts.
inline constexpr int kTwoShotConnections = 2;

// REQUIRES: all_reduce or reduce; nranks > 1.
Schedule BuildTwoShot(const ScheduleRequest& request);

}  // namespace tutti::builders
