// The facts about a call that planning needs, on the host or on a GPU: its kind, the length of its blocks, and the
// algorithms' schedules for it.
//
// Thread-safety: pure functions.
#pragma once

#include "algorithms/schedule/extents.h"
#include "selection/cost_model/candidates.h"
#include "src/plan/operation.h"

namespace tutti::plan {

// The values that distinguish plans.
struct PlanKey {
  std::uint64_t call;  // PackCall
  std::uint64_t count;
  // Counts and places of the v-forms, back to back; the values that the tensor forms agree on.
  std::vector<std::size_t> further;

  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};
struct PlanKeyHash {
  std::size_t operator()(const PlanKey& key) const;
};
PlanKey KeyOf(const Operation& operation, std::uint64_t packed);

// Turns a barrier into an all-reduce of one byte whose result is unused; returns any other operation as it is.
Operation Scheduled(const Operation& operation);
cost_model::Kind KindOf(const Operation& operation);
std::size_t LargestBlockBytes(const Operation& operation);
// `blocks`: the schedule's.
schedule::Extents ExtentsOf(const Operation& operation, int nranks, int blocks);

// Bytes of the buffers, from their first to the last one used.
struct UsedBytes {
  std::size_t input, output;
};
UsedBytes BytesUsed(const schedule::Extents& extents);

// One message, in `channels` shares.
schedule::Schedule MessageSchedule(const Operation& operation, int rank, int nranks, int channels);
// This rank's part of a collective by one of our algorithms. Throws tuttiInternalError if it has none.
schedule::Schedule BuiltSchedule(const Operation& operation, const cost_model::Candidate& candidate,
                                 const cost_model::TuningContext& tuning, int rank);

}  // namespace tutti::plan
