// An algorithm is a pure function from a question to one rank's schedule. records.h lists the algorithms.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>

#include "algorithms/schedule/rank_layout.h"
#include "algorithms/schedule/schedule.h"

namespace tutti::builders {

// A builder writes in the words of the schedule: In(0), To(next), Step.
using namespace schedule;

// The schedule that is wanted, and the rank that it is for.
struct ScheduleRequest {
  Collective collective;
  int rank;
  int nranks;
  int root = 0;
  int channels = 1;  // ring and direct repeat their schedule this often; trees use a multiple of their own
  const RankLayout* where = nullptr;  // null: all on one node, rings in the order of ranks
  bool posts = true;                  // every rank can read every other's posts: they are on one host
};

// REQUIRES: 0 <= rank, root < nranks; nranks >= 1; channels >= 1; `where`, if given, arranges nranks ranks.
// nullopt: the algorithm has no form of this collective at this size (Bruck is for all-gather, ...).
std::optional<Schedule> Build(tuttiAlgorithm_t algorithm, const ScheduleRequest& request);

// Whether the algorithm has a form of the collective, the same on all ranks. REQUIRES: collective is scheduled.
bool Supports(tuttiAlgorithm_t algorithm, Collective collective, int nranks);

}  // namespace tutti::builders
