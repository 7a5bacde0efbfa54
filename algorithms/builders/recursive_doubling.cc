// Recursive doubling: partners at distance 1, 2, 4, ... exchange all that they have summed so far, so that every rank
// has everything after log2(n) exchanges. It moves log2(n) times the message, and no rank waits more often than that:
// this suits small messages where a wait is expensive, as between hosts.
//
// Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH" (2005). Where nranks
// is no power of two, each surplus rank is first folded into a neighbour.
#include <utility>

#include "algorithms/builders/builders.h"
#include "algorithms/builders/rank_folding.h"
#include "algorithms/builders/steps.h"

namespace tutti::builders {
namespace {

// The one block that is exchanged: everything.
constexpr int kAll = 0;

// A sum that is the same expression on both sides of an exchange: the lower rank's part first.
std::vector<Operand> InOrder(Operand mine, int rank, int partner) {
  if (partner < rank) return {From(partner), mine};
  return {mine, From(partner)};
}

Channel ActiveRank(int rank, const RankFolding& fold) {
  Lane lane;
  const int folded = fold.FoldedInto(rank);
  std::vector<Operand> sum = {Scaled(kAll)};
  if (folded != -1) sum.insert(sum.begin(), From(folded));  // the lower one
  for (int distance = 1; distance < fold.active(); distance *= 2) {
    const int partner = fold.RankOf(fold.NumberOf(rank) ^ distance);
    // The sum goes to the partner, and is kept until the partner's arrives. The rank's own input needs no copy.
    std::vector<Operand> places = {To(partner)};
    if (sum.size() > 1) places.push_back(Out(kAll));
    const Operand kept = sum.size() > 1 ? Out(kAll) : Scaled(kAll);
    lane.steps.push_back(MakeStep(kAll, std::move(sum), std::move(places)));
    sum = InOrder(kept, rank, partner);
  }
  std::vector<Operand> results = {Out(kAll)};
  if (folded != -1) results.push_back(To(folded));
  lane.steps.push_back(Finally(MakeStep(kAll, std::move(sum), std::move(results))));
  return ChannelOf(std::move(lane));
}

// Gives its data to its neighbour, and gets the result. Two lanes, so that it may give ahead.
Channel FoldedRank(int worker) {
  return ChannelOf(Lane{{MakeStep(kAll, {Scaled(kAll)}, {To(worker)})}},
                   Lane{{MakeStep(kAll, {From(worker)}, {Out(kAll)})}});
}

}  // namespace

Schedule BuildRecursiveDoubling(const ScheduleRequest& request) {
  const RankFolding fold(request.nranks);
  const int rank = request.rank;
  Channel channel = fold.IsFolded(rank) ? FoldedRank(rank + 1) : ActiveRank(rank, fold);
  Schedule schedule = Answer(request, 1, std::move(channel));
  // The next sum overwrites this one even if the partner has not read it, so it has to travel in its slot.
  schedule.reference_safe = false;
  return schedule;
}

}  // namespace tutti::builders
