// Peer memory: each rank moves one block of every rank's buffers. It reads the block from the buffers that hold
// contributions, reduces them, and writes the result to the buffers that want it, in one pass and without a slot. The
// ranks run in one launch, which begins when all have called.
//
// It also works in place, where a rank's input is its output: a step reads its block from all buffers before it writes
// it to any, and no other step touches that block. Only an all-to-all does not: each block is read by one rank and
// overwritten by another.
#include <utility>

#include "algorithms/builders/builders.h"
#include "algorithms/builders/steps.h"

namespace tutti::builders {
namespace {

// The rank's own block is the one that it moves.
std::vector<Operand> Contributions(int rank, int n) {
  return ContributionsInRankOrder(rank, n, rank, [rank](int q) { return OfPeer(q, Scaled(rank)); });
}

// The block's places in all results.
std::vector<Operand> Everywhere(int rank, int n) {
  std::vector<Operand> writes{Out(rank)};
  for (const int q : Others(rank, n)) writes.push_back(OfPeer(q, Out(rank)));
  return writes;
}

Step StepOf(const ScheduleRequest& request) {
  const int rank = request.rank, n = request.nranks;
  const auto of_root = [&](const Operand& memory) {
    return request.root == rank ? memory : OfPeer(request.root, memory);
  };
  switch (request.collective) {
    case Collective::all_reduce: return Finally(MakeStep(rank, Contributions(rank, n), Everywhere(rank, n)));
    case Collective::reduce_scatter: return Finally(MakeStep(rank, Contributions(rank, n), {Out(rank)}));
    case Collective::reduce: return Finally(MakeStep(rank, Contributions(rank, n), {of_root(Out(rank))}));
    case Collective::all_gather: return MakeStep(rank, {In(rank)}, Everywhere(rank, n));
    case Collective::broadcast: return MakeStep(rank, {of_root(In(rank))}, Everywhere(rank, n));
    case Collective::gather: return MakeStep(rank, {In(rank)}, {of_root(Out(rank))});
    default: return MakeStep(rank, {of_root(In(rank))}, {Out(rank)});  // scatter
  }
}

// A lane fetches one rank's block.
Channel AllToAll(int rank, int n) {
  Channel channel;
  channel.lanes.push_back({{MakeStep(rank, {In(rank)}, {Out(rank)})}});
  for (const int q : Others(rank, n)) {
    channel.lanes.push_back({{MakeStep(n + q, {OfPeer(q, In(rank))}, {Out(q)})}});
  }
  return channel;
}

Channel ChannelFor(const ScheduleRequest& request) {
  if (request.collective == Collective::all_to_all) return AllToAll(request.rank, request.nranks);
  return ChannelOf(Lane{{StepOf(request)}});
}

}  // namespace

Schedule BuildPeerMemory(const ScheduleRequest& request) {
  Schedule schedule = Answer(request, request.nranks, ChannelFor(request));
  schedule.one_launch = true;
  schedule.separate_input = request.collective == Collective::all_to_all;
  schedule.reference_safe = schedule.reference_safe_in_place = true;  // it has no slots
  return schedule;
}

}  // namespace tutti::builders
