#include "selection/cost_model/representative_ranks.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "algorithms/builders/steps.h"
#include "algorithms/schedule/binding.h"

namespace tutti::cost_model {
namespace {

// Up to this many ranks every rank's schedule is built: exact, and in less than a millisecond.
constexpr int kFewRanks = 16;

// The first ring, which the representatives' only channel takes, visits every node in the same way.
bool Repeats(const std::vector<int>& ring, int period) {
  const int n = static_cast<int>(ring.size());
  for (int i = 0; i < n; ++i) {
    if (ring[(i + period) % n] != (ring[i] + period) % n) return false;
  }
  return true;
}

// The number of ranks after which everything repeats. It is smaller than nranks only if nodes are equal, their
// ranks consecutive, and rings visit every node in the same way.
int Period(const builders::ScheduleRequest& request) {
  const auto* where = request.where;
  if (where == nullptr) return 1;
  const int n = request.nranks;
  if (n % where->nodes() != 0) return n;
  const bool one_node = where->nodes() == 1;
  const int period = one_node ? 1 : n / where->nodes();
  if (!where->rings.empty() && !Repeats(where->rings.front(), period)) return n;
  if (one_node) return period;
  for (int rank = 0; rank < n; ++rank) {
    if (where->node_of[rank] != rank / period) return n;
  }
  return period;
}

int MembersOf(builders::Symmetry symmetry, const builders::ScheduleRequest& request) {
  const int n = request.nranks;
  if (n <= kFewRanks || symmetry == builders::Symmetry::none) return n;
  const int period = Period(request);
  // Ranks keep their place on the node only if a node is a power of two, too.
  const bool powers =
      std::has_single_bit(static_cast<unsigned>(n)) && std::has_single_bit(static_cast<unsigned>(period));
  return symmetry == builders::Symmetry::exchange && !powers ? n : period;
}

}  // namespace

std::optional<RepresentativeRanks> RepresentativeRanks::Of(tuttiAlgorithm_t algorithm,
                                                           const builders::ScheduleRequest& request) {
  RepresentativeRanks representatives;
  representatives.nranks_ = request.nranks;
  representatives.symmetry_ = builders::RecordOf(algorithm).SymmetryIn(request.collective);
  const int count = MembersOf(representatives.symmetry_, request);
  for (int rank = 0; rank < count; ++rank) {
    builders::ScheduleRequest asked = request;
    asked.rank = rank;
    asked.channels = 1;
    auto schedule = builders::Build(algorithm, asked);
    if (!schedule) return std::nullopt;
    representatives.members_.push_back(std::move(*schedule));
  }
  return representatives;
}

RepresentativeRanks RepresentativeRanks::Of(std::vector<schedule::Schedule> schedules) {
  RepresentativeRanks representatives;
  representatives.nranks_ = static_cast<int>(schedules.size());
  representatives.members_ = std::move(schedules);
  return representatives;
}

Unit RepresentativeRanks::unit() const {
  const schedule::Schedule& first = members_.front();
  const int channels = static_cast<int>(first.channels.size());
  Unit unit{channels, channels * first.connections, first.pieces(), 1, true};
  for (const auto& member : members_) {
    unit.lanes = std::max(unit.lanes, static_cast<int>(schedule::LanesOf(member)));
    unit.refers = unit.refers && schedule::MayAlwaysRefer(member);
  }
  return unit;
}

RepresentativeRanks::StandIn RepresentativeRanks::For(int member, int peer) const {
  if (complete()) return {peer, member};
  const int period = static_cast<int>(members_.size());
  const int stand_in = peer % period;
  if (symmetry_ == builders::Symmetry::exchange) return {stand_in, member ^ (peer ^ stand_in)};
  return {stand_in, builders::Around(member - (peer - stand_in), nranks_)};
}

int RepresentativeRanks::InCopy(int copy, int rank) const {
  const int shift = copy * static_cast<int>(members_.size());
  return symmetry_ == builders::Symmetry::exchange ? rank ^ shift : builders::Around(rank + shift, nranks_);
}

}  // namespace tutti::cost_model
