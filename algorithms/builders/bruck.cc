// Bruck: in round k every rank sends to one rank at distance 2^k; ceil(log2 nranks) rounds suffice for any number of
// ranks. Every block travels in a slot of its own.
//
// Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient Algorithms for All-to-All Communications in Multiport
// Message-Passing Systems" (1997).
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "algorithms/builders/builders.h"
#include "algorithms/builders/steps.h"

namespace tutti::builders {
namespace {

// Before round k a rank has the blocks of itself and the 2^k - 1 ranks in front of it. It sends them backwards and gets
// as many from in front.
std::vector<Step> AllGather(int rank, int n) {
  std::vector<Step> steps;
  for (int distance = 1; distance < n; distance *= 2) {
    const int behind = Around(rank - distance, n);
    const int in_front = Around(rank + distance, n);
    const auto send = [&](int i) {
      const int sent = Around(rank + i, n);
      steps.push_back(distance == 1 ? MakeStep(rank, {In(rank)}, {Out(rank), To(behind)})
                                    : MakeStep(sent, {Out(sent)}, {To(behind)}));
    };
    const auto receive = [&](int i) {
      const int received = Around(in_front + i, n);
      steps.push_back(MakeStep(received, {From(in_front)}, {Out(received)}));
    };
    std::vector<int> blocks(static_cast<std::size_t>(std::min(distance, n - distance)));
    std::iota(blocks.begin(), blocks.end(), 0);
    SendAndReceive(blocks, blocks, send, receive);
  }
  return steps;
}

// A block for the rank at distance i travels the powers of two in i, the smallest first. On the way it lies in
// scratch[i] of the rank that has it.
class AllToAll {
 public:
  AllToAll(int rank, int n) : rank_(rank), n_(n), here_(n) {
    for (int i = 1; i < n; ++i) here_[i] = In(Around(rank + i, n));
    steps_.push_back(MakeStep(rank, {In(rank)}, {Out(rank)}));
    for (int distance = 1; distance < n; distance *= 2) {
      std::vector<int> blocks;
      for (int i = n - 1; i >= distance; --i) {
        if ((i & distance) != 0) blocks.push_back(i);
      }
      const auto send = [&](int i) { Send(i, distance); };
      const auto receive = [&](int i) { Receive(i, distance); };
      SendAndReceive(blocks, blocks, send, receive);
    }
  }

  std::vector<Step> steps() && { return std::move(steps_); }

 private:
  // All blocks have one length, so any of them may name it.
  void Move(std::vector<Operand> reads, std::vector<Operand> writes) {
    steps_.push_back(MakeStep(rank_, std::move(reads), std::move(writes)));
  }

  void Send(int i, int distance) {
    Move({here_[i]}, {To(Around(rank_ + distance, n_))});
    here_[i] = Scratch(i);
  }

  void Receive(int i, int distance) {
    const int behind = Around(rank_ - distance, n_);
    const bool arrived = i < 2 * distance;
    if (!arrived) {
      Move({From(behind)}, {Scratch(i)});
      return;
    }
    // In place, the block from distance i behind replaces the one for the same rank, which is n - i in front. If that
    // one has not left yet, it moves to scratch.
    Operand& replaced = here_[n_ - i];
    if (replaced.kind == OperandKind::input) {
      Move({replaced}, {Scratch(n_ - i)});
      replaced = Scratch(n_ - i);
    }
    Move({From(behind)}, {Out(Around(rank_ - i, n_))});
  }

  int rank_;
  int n_;
  std::vector<Operand> here_;  // where the block that goes i further lies now
  std::vector<Step> steps_;
};

}  // namespace

Schedule BuildBruck(const ScheduleRequest& request) {
  const auto& [collective, rank, n, root, channels, where, posts] = request;
  const bool exchange = collective == Collective::all_to_all;
  Schedule schedule = Answer(request, n, ChannelOf(Lane{exchange ? AllToAll(rank, n).steps() : AllGather(rank, n)}));
  schedule.scratch_blocks = exchange ? n : 0;
  schedule.reference_safe = true;
  // In place, an all-to-all overwrites data that a slow peer may still have to read.
  schedule.reference_safe_in_place = !exchange;
  return schedule;
}

std::string_view BruckIsTooLongToPrice(Collective collective, int nranks) {
  constexpr int kMost = 64;
  return collective == Collective::all_to_all && nranks > kMost
             ? "is considered up to 64 ranks only: it moves n/2 log n blocks, one slot each"
             : "";
}

}  // namespace tutti::builders
