// Two-level all-to-all: data for another node travels over its sender's rail to that rail's server there, which hands
// it to the destination rank. So nodes exchange over as many pairs as they have ranks, not over all pairs.
#pragma once

#include "algorithms/builders/rails.h"

namespace tutti::builders {

// REQUIRES: all_to_all with blocks of one length; nranks > 1.
Schedule ExchangeOverRails(const ScheduleRequest& request, const Rails& rails);

}  // namespace tutti::builders
