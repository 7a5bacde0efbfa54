// Every algorithm, by name. An algorithm is a pure function from a question to one rank's schedule.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <span>

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

// Whether the algorithm works only with posts.
bool NeedsPosts(tuttiAlgorithm_t algorithm);

// How the ranks' schedules resemble each other (representative_ranks.h).
enum class Symmetry { none, rotation, exchange };
Symmetry SymmetryOf(tuttiAlgorithm_t algorithm, Collective collective);

// Whether its channels go around RankLayout::rings, each around its own.
bool FollowsRings(tuttiAlgorithm_t algorithm);

// Whether an all-to-all's blocks pass through third ranks: they must all have one length, so it has no pairwise form.
bool PassesBlocksOn(tuttiAlgorithm_t algorithm, Collective collective);

// Whether it serves only for comparison (baselines.cc): never chosen unless forced.
bool IsBaseline(tuttiAlgorithm_t algorithm);

// How many of a fabric's channels a schedule takes for each channel that the request asks for: channels it makes,
// times connections (schedule.h).
int FabricChannels(tuttiAlgorithm_t algorithm, bool posts);

}  // namespace tutti::builders
