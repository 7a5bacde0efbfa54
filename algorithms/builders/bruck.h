// Bruck: in round k every rank sends to one rank at distance 2^k; ceil(log2 nranks) rounds suffice for any number of
// ranks. Every block travels in a slot of its own.
//
// Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient Algorithms for All-to-All Communications in Multiport
// Message-Passing Systems" (1997).
#pragma once

#include "algorithms/builders/build.h"

namespace tutti::builders {

// REQUIRES: all_gather or all_to_all; nranks > 1. All-to-all passes other ranks' blocks on, so all blocks must have the
// same length: it has no v-form.
Schedule BuildBruck(const ScheduleRequest& request);

}  // namespace tutti::builders
