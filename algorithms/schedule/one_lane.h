// A channel's lanes as one: for data of one chunk, lanes cannot overlap chunks, so one order of their steps serves as
// well and needs no bookkeeping.
//
// Thread-safety: pure functions.
#pragma once

#include "algorithms/schedule/schedule.h"

namespace tutti::schedule {

// All steps of `channel` in an order in which each comes after those that it waits for and those before it in its lane.
// Among the steps that may come next, one that reads no slot is taken first: it cannot wait for another rank, but
// another rank may wait for it. Otherwise the lane with the lowest number goes on. REQUIRES: no waits in a circle.
//
// Ranks that run this order may still wait for each other in a circle. Schedule::one_lane_safe says where they do not.
Lane InOneLane(const Channel& channel);

}  // namespace tutti::schedule
