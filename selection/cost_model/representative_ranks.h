// The ranks whose schedules stand for all ranks' schedules: every rank where that is little work, else one of each
// kind, because the others' schedules differ only in the names of the peers:
//   rotation   rank r + u does to peer p + u what rank r does to peer p (ring; u is 1 on one node, and
//              a node's size on several)
//   exchange   rank r xor u does to peer p xor u what rank r does to peer p (recursive halving and doubling)
// Pricing walks the dependencies between the members; a peer that is no member is replaced by its stand-in.
//
// Thread-safety: value type.
#pragma once

#include <optional>
#include <vector>

#include "algorithms/builders/records.h"

namespace tutti::cost_model {

// What an algorithm's schedules take for each channel that a call asks for.
struct Unit {
  int channels = 1;            // of the schedule (a double binary tree: two)
  int channels_of_fabric = 1;  // those, times their connections (schedule.h)
  int pieces = 1;              // Schedule::pieces
  int lanes = 1;               // of the rank that has most
  bool refers = false;         // MayAlwaysRefer, of all ranks' schedules
};

class RepresentativeRanks {
 public:
  // For one channel. nullopt: the algorithm has no form of it. `question.rank` and `.channels` are not used.
  static std::optional<RepresentativeRanks> Of(tuttiAlgorithm_t algorithm, const builders::ScheduleRequest& request);
  // From all ranks' schedules, as they are.
  static RepresentativeRanks Of(std::vector<schedule::Schedule> schedules);

  const std::vector<schedule::Schedule>& members() const { return members_; }
  int nranks() const { return nranks_; }
  Unit unit() const;
  bool complete() const { return static_cast<int>(members_.size()) == nranks_; }

  // The member that stands for `peer`, and the rank as which it sees member number `member`: if the member fills a slot
  // to(peer), the stand-in reads it from(seen_as), and vice versa.
  struct StandIn {
    int member;
    int seen_as;
  };
  StandIn For(int member, int peer) const;
  // Copy number `copy` of the members: the rank that does to InCopy(copy, peer) what `rank` does to `peer`.
  int InCopy(int copy, int rank) const;

 private:
  std::vector<schedule::Schedule> members_;  // of ranks 0, 1, ...
  int nranks_ = 0;
  builders::Symmetry symmetry_ = builders::Symmetry::none;
};

}  // namespace tutti::cost_model
