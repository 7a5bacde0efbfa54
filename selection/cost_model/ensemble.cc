#include "selection/cost_model/ensemble.h"

#include <bit>
#include <utility>

#include "algorithms/builders/steps.h"

namespace tutti {
namespace {

// Up to this many ranks every rank's schedule is built: exact, and in less than a millisecond.
constexpr int kFewRanks = 16;

// The first ring, which an ensemble's only channel takes, visits every node in the same way.
bool Repeats(const std::vector<int>& ring, int period) {
  const int n = static_cast<int>(ring.size());
  for (int i = 0; i < n; ++i) {
    if (ring[(i + period) % n] != (ring[i] + period) % n) return false;
  }
  return true;
}

// The number of ranks after which everything repeats. That takes equal nodes of consecutive ranks, and rings that visit
// every node in the same way; otherwise nranks.
int Period(const Question& question) {
  const auto* where = question.where;
  if (where == nullptr || where->nodes() == 1) return 1;
  const int n = question.nranks;
  if (n % where->nodes() != 0) return n;
  const int period = n / where->nodes();
  if (!where->rings.empty() && !Repeats(where->rings.front(), period)) return n;
  for (int rank = 0; rank < n; ++rank) {
    if (where->node_of[rank] != rank / period) return n;
  }
  return period;
}

int MembersOf(Symmetry symmetry, const Question& question) {
  const int n = question.nranks;
  if (n <= kFewRanks || symmetry == Symmetry::none) return n;
  const int period = Period(question);
  // Ranks keep their place on the node only if a node is a power of two, too.
  const bool powers =
      std::has_single_bit(static_cast<unsigned>(n)) && std::has_single_bit(static_cast<unsigned>(period));
  return symmetry == Symmetry::exchange && !powers ? n : period;
}

}  // namespace

std::optional<Ensemble> Ensemble::Of(tuttiAlgorithm_t algorithm, const Question& question) {
  Ensemble ensemble;
  ensemble.nranks_ = question.nranks;
  ensemble.symmetry_ = SymmetryOf(algorithm, question.collective);
  const int count = MembersOf(ensemble.symmetry_, question);
  for (int rank = 0; rank < count; ++rank) {
    Question asked = question;
    asked.rank = rank;
    asked.channels = 1;
    auto schedule = Build(algorithm, asked);
    if (!schedule) return std::nullopt;
    ensemble.members_.push_back(std::move(*schedule));
  }
  return ensemble;
}

Ensemble Ensemble::Of(std::vector<Schedule> schedules) {
  Ensemble ensemble;
  ensemble.nranks_ = static_cast<int>(schedules.size());
  ensemble.members_ = std::move(schedules);
  return ensemble;
}

Ensemble::StandIn Ensemble::For(int member, int peer) const {
  if (complete()) return {peer, member};
  const int period = static_cast<int>(members_.size());
  const int stand_in = peer % period;
  if (symmetry_ == Symmetry::exchange) return {stand_in, member ^ (peer ^ stand_in)};
  return {stand_in, Around(member - (peer - stand_in), nranks_)};
}

}  // namespace tutti
