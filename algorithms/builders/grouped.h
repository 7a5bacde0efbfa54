// Grouped: neighbouring ranks form groups of about sqrt(n). Each member gives its contribution to the group's first
// rank, which reduces them and posts the partial sum; then every rank reduces all groups' partial sums.
//
//     0 1 2 | 3 4 5 | 6 7 8        0 <- 1 2, 3 <- 4 5, 6 <- 7 8;    every rank reads 0, 3 and 6
//
// Where direct makes each rank read n - 1 messages, this makes it read about sqrt(n), or twice that for a first rank,
// in two trips. It pays where reading costs more than a trip: not for a few bytes (docs/performance.md). The two-level
// scheme of Karonis et al., "Exploiting Hierarchy in Parallel Computer Networks" (2000), with the groups that make it
// cheapest where all ranks are equally near.
#pragma once

#include "algorithms/builders/build.h"

namespace tutti::builders {

// The most ranks: a first rank reads a group at once, and every rank reads a partial sum of each group.
inline constexpr int kMaxGroupedRanks = kMaxReads * kMaxReads;

// REQUIRES: all_reduce; 1 < nranks <= kMaxGroupedRanks.
Schedule BuildGrouped(const ScheduleRequest& request);

}  // namespace tutti::builders
