// Recursive halving and doubling: partners at distance n/2, n/4, ..., 1 exchange the half of the blocks that the other
// is responsible for, and come back at distance 1, 2, ..., n/2 with the results. Logarithmically many partners; every
// block travels in a slot of its own.
//
// Rabenseifner, "Optimization of Collective Reduction Operations" (2004); Thakur, Rabenseifner and Gropp, "Optimization
// of Collective Communication Operations in MPICH" (2005). Where nranks is no power of two, each surplus rank is first
// folded into a neighbour, which works for both.
#include <utility>

#include "algorithms/builders/builders.h"
#include "algorithms/builders/rank_folding.h"
#include "algorithms/builders/steps.h"

namespace tutti::builders {
namespace {

// An exchange with one partner, seen from one side.
struct PairExchange {
  int partner;
  std::vector<int> sent;
  std::vector<int> received;
};

// The two sides of number's exchange at a distance: aligned runs of `distance` active ranks.
PairExchange ExchangeAt(const RankFolding& fold, int number, int distance) {
  const int mine = number / distance * distance;
  return {fold.RankOf(number ^ distance), fold.Blocks(mine ^ distance, distance), fold.Blocks(mine, distance)};
}

// The order in which an active rank first touches the blocks when halving, and so the order in which the rank folded
// into it must send them.
std::vector<int> FoldOrder(const RankFolding& fold, int active_rank) {
  std::vector<int> order;
  const auto touch = [&](int block) { order.push_back(block); };
  const PairExchange exchange = ExchangeAt(fold, fold.NumberOf(active_rank), fold.active() / 2);
  SendAndReceive(exchange.sent, exchange.received, touch, touch);
  return order;
}

// The order in which an active rank gets all ranks' blocks when doubling, its own (and its folded one's) first.
std::vector<int> UnfoldOrder(const RankFolding& fold, int active_rank) {
  const int number = fold.NumberOf(active_rank);
  std::vector<int> order = fold.Blocks(number, 1);
  for (int distance = 1; distance < fold.active(); distance *= 2) {
    const auto received = ExchangeAt(fold, number, distance).sent;  // doubling returns what halving took
    order.insert(order.end(), received.begin(), received.end());
  }
  return order;
}

class ActiveRank {
 public:
  ActiveRank(const ScheduleRequest& request, const RankFolding& fold)
      : collective_(request.collective),
        rank_(request.rank),
        folded_(fold.FoldedInto(request.rank)),
        number_(fold.NumberOf(request.rank)),
        fold_(fold),
        held_(request.nranks) {
    if (IsReducing(collective_)) Halve();
    if (collective_ != Collective::reduce_scatter) Double();
  }

  std::vector<Step> steps() && { return std::move(steps_); }

 private:
  void Halve() {
    for (int b = 0; b < static_cast<int>(held_.size()); ++b) {
      held_[b] = {Scaled(b)};
      if (folded_ != -1) held_[b].push_back(From(folded_));
    }
    for (int distance = fold_.active() / 2; distance >= 1; distance /= 2) {
      const PairExchange exchange = ExchangeAt(fold_, number_, distance);
      const auto send = [&](int b) { steps_.push_back(MakeStep(b, held_[b], {To(exchange.partner)})); };
      const auto add = [&](int b) {
        held_[b].push_back(From(exchange.partner));
        Step step = MakeStep(b, held_[b], distance == 1 ? Results(b) : std::vector<Operand>{PartialSum(b)});
        step.final = distance == 1;
        steps_.push_back(std::move(step));
        held_[b] = {PartialSum(b)};
      };
      SendAndReceive(exchange.sent, exchange.received, send, add);
    }
  }

  void Double() {
    // A rank without a folded one stores its block in the step that first sends it.
    const bool begins = collective_ == Collective::all_gather && folded_ == -1;
    if (collective_ == Collective::all_gather && !begins) {
      for (const int b : fold_.Blocks(number_, 1)) {
        steps_.push_back(MakeStep(b, {b == rank_ ? In(b) : From(folded_)}, {Out(b)}));
        if (b == rank_) steps_.back().writes.push_back(To(folded_));
      }
    }
    for (int distance = 1; distance < fold_.active(); distance *= 2) {
      const auto [partner, received, sent] = ExchangeAt(fold_, number_, distance);
      const auto send = [&, to = partner, first = begins && distance == 1](int b) {
        steps_.push_back(first ? MakeStep(b, {In(b)}, {Out(b), To(to)}) : MakeStep(b, {Out(b)}, {To(to)}));
      };
      const auto receive = [&, from = partner](int b) { steps_.push_back(MakeStep(b, {From(from)}, Results(b))); };
      SendAndReceive(sent, received, send, receive);
    }
  }

  // An all-reduce keeps partial sums where the result will be.
  Operand PartialSum(int block) const { return collective_ == Collective::all_reduce ? Out(block) : Scratch(block); }

  // Where a finished block belongs.
  std::vector<Operand> Results(int block) const {
    if (collective_ == Collective::reduce_scatter) return {block == rank_ ? Out(block) : To(folded_)};
    if (folded_ == -1) return {Out(block)};
    return {Out(block), To(folded_)};
  }

  Collective collective_;
  int rank_;
  int folded_;
  int number_;
  const RankFolding& fold_;
  std::vector<std::vector<Operand>> held_;  // while halving: the operands of this rank's sum of a block
  std::vector<Step> steps_;
};

// Gives its data to its neighbour, and gets the result. Two lanes, so that it may give ahead.
Channel FoldedRank(const ScheduleRequest& request, const RankFolding& fold) {
  const int rank = request.rank;
  const int worker = rank + 1;
  Lane give;
  Lane get;
  if (IsReducing(request.collective)) {
    for (const int b : FoldOrder(fold, worker)) give.steps.push_back(MakeStep(b, {Scaled(b)}, {To(worker)}));
  } else {
    give.steps.push_back(MakeStep(rank, {In(rank)}, {Out(rank), To(worker)}));
  }
  for (const int b : UnfoldOrder(fold, worker)) {
    const bool wanted = request.collective == Collective::all_reduce ||
                        (request.collective == Collective::reduce_scatter) == (b == rank);
    if (wanted) get.steps.push_back(MakeStep(b, {From(worker)}, {Out(b)}));
  }
  return {{std::move(give), std::move(get)}};
}

}  // namespace

Schedule BuildRecursive(const ScheduleRequest& request) {
  const RankFolding fold(request.nranks);
  Channel channel =
      fold.IsFolded(request.rank) ? FoldedRank(request, fold) : ChannelOf(Lane{ActiveRank(request, fold).steps()});
  Schedule schedule = Answer(request, request.nranks, std::move(channel));
  schedule.scratch_blocks = request.collective == Collective::reduce_scatter ? request.nranks : 0;
  schedule.reference_safe = true;
  schedule.reference_safe_in_place = true;
  return schedule;
}

std::string_view RecursiveIsTooLongToPrice(Collective /*collective*/, int nranks) {
  // Otherwise the ranks differ, and each has its own price.
  constexpr int kMost = 64;
  const bool power_of_two = (nranks & (nranks - 1)) == 0;
  return nranks > kMost && !power_of_two ? "is considered above 64 ranks only if their number is a power of two" : "";
}

}  // namespace tutti::builders
