// The baselines that the literature compares with, as schedules like any other. They are chosen only if forced.
//
// Thread-safety: pure functions.
#pragma once

#include "algorithms/builders/build.h"

namespace tutti::builders {

// Every rank sends everything to one server, rank 0 or the root, which sums and sends everything back: its link carries
// nranks - 1 times the data each way. Li et al., "Scaling Distributed Machine Learning with the Parameter Server"
// (2014).
// REQUIRES: all_reduce, broadcast or reduce; nranks > 1.
Schedule BuildParameterServer(const ScheduleRequest& request);

// Every rank sends everything to all others, and sums for itself: nranks * (nranks - 1) times the data. Grama et al.,
// "Introduction to Parallel Computing" (2003), chapter 4, which names the pattern.
// REQUIRES: all_reduce; nranks > 1.
Schedule BuildAllToAllBroadcast(const ScheduleRequest& request);

}  // namespace tutti::builders
