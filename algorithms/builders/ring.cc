// Ring: every rank sends to the next rank and receives from the previous one, so each link carries each byte at most
// twice and all links are busy all the time: bandwidth-optimal, and nranks trips long.
//
// Patarasuk and Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations" (2009). Broadcast and
// reduce are the ring cut open at the root: a pipelined chain.
#include <algorithm>
#include <numeric>
#include <utility>

#include "algorithms/builders/builders.h"
#include "algorithms/builders/steps.h"

namespace tutti::builders {
namespace {

// The order in which the channel's ring visits the ranks.
std::vector<int> OrderOf(const ScheduleRequest& request, int channel) {
  std::vector<int> order;
  if (request.where == nullptr) {
    order.resize(static_cast<std::size_t>(request.nranks));
    std::iota(order.begin(), order.end(), 0);
  } else if (const auto& rings = request.where->rings; !rings.empty()) {
    order = rings[static_cast<std::size_t>(channel) % rings.size()];
  } else {
    for (const auto& ranks : request.where->ranks_on) order.insert(order.end(), ranks.begin(), ranks.end());
  }
  return order;
}

// A rank's place on the ring, and the rank (or its block) `k` places behind it.
struct Position {
  Position(std::vector<int> ring, int self)
      : rank(self),
        n(static_cast<int>(ring.size())),
        order(std::move(ring)),
        place(static_cast<int>(std::ranges::find(order, self) - order.begin())) {}

  int next() const { return Behind(-1); }
  int previous() const { return Behind(1); }
  int Behind(int k) const { return order[static_cast<std::size_t>(Around(place - k, n))]; }

  int rank;
  int n;
  std::vector<int> order;
  int place;
};

// Block b starts at the rank after b and returns to rank b with every rank's contribution added on the way:
//
//     rank 0       rank 1       rank 2            n = 3, time runs down
//     send 2       send 0       send 1
//     add to 1     add to 2     add to 0          receive, add mine, pass on
//     finish 0     finish 1     finish 2          receive, add mine: the result
//
std::vector<Step> ReduceAround(const Position& at, std::vector<Operand> destinations) {
  std::vector<Step> steps;
  const int first = at.Behind(1);
  steps.push_back(MakeStep(first, {Scaled(first)}, {To(at.next())}));
  for (int k = 2; k < at.n; ++k) {
    const int block = at.Behind(k);
    steps.push_back(MakeStep(block, {From(at.previous()), Scaled(block)}, {To(at.next())}));
  }
  const int own = at.rank;
  steps.push_back(Finally(MakeStep(own, {From(at.previous()), Scaled(own)}, std::move(destinations))));
  return steps;
}

// After a rank has sent its own block, the others come by, the nearest first. The last one has been everywhere.
void CollectAround(const Position& at, std::vector<Step>& steps) {
  for (int k = 1; k < at.n; ++k) {
    const int block = at.Behind(k);
    steps.push_back(MakeStep(block, {From(at.previous())}, {Out(block)}));
    if (k < at.n - 1) steps.back().writes.push_back(To(at.next()));
  }
}

std::vector<Step> AllReduce(const Position& at) {
  std::vector<Step> steps = ReduceAround(at, {Out(at.rank), To(at.next())});
  CollectAround(at, steps);
  return steps;
}

std::vector<Step> ReduceScatter(const Position& at) { return ReduceAround(at, {Out(at.rank)}); }

std::vector<Step> AllGather(const Position& at) {
  std::vector<Step> steps = {MakeStep(at.rank, {In(at.rank)}, {Out(at.rank), To(at.next())})};
  CollectAround(at, steps);
  return steps;
}

// From the root along the ring to the rank before the root.
std::vector<Step> Broadcast(const Position& at, int root) {
  Step step = MakeStep(0, {at.rank == root ? In(0) : From(at.previous())}, {Out(0)});
  if (at.next() != root) step.writes.push_back(To(at.next()));
  return {step};
}

// From the rank after the root along the ring to the root.
std::vector<Step> Reduce(const Position& at, int root) {
  if (at.previous() == root) return {MakeStep(0, {Scaled(0)}, {To(at.next())})};
  const std::vector<Operand> sum = {From(at.previous()), Scaled(0)};
  if (at.rank == root) return {Finally(MakeStep(0, sum, {Out(0)}))};
  return {MakeStep(0, sum, {To(at.next())})};
}

std::vector<Step> StepsFor(const ScheduleRequest& request, int channel) {
  const Position at(OrderOf(request, channel), request.rank);
  switch (request.collective) {
    case Collective::all_reduce: return AllReduce(at);
    case Collective::reduce_scatter: return ReduceScatter(at);
    case Collective::all_gather: return AllGather(at);
    case Collective::broadcast: return Broadcast(at, request.root);
    case Collective::reduce: return Reduce(at, request.root);
    default: return {};
  }
}

}  // namespace

Schedule BuildRing(const ScheduleRequest& request) {
  const bool chain = HasRoot(request.collective);
  Schedule schedule = Answer(request, chain ? 1 : request.nranks, {});
  for (int c = 0; c < request.channels; ++c) schedule.channels[c] = ChannelOf(Lane{StepsFor(request, c)});
  schedule.reference_safe = true;
  // A block's result comes to a rank only after every rank has read that rank's contribution to it.
  schedule.reference_safe_in_place = true;
  return schedule;
}

}  // namespace tutti::builders
