// Peer memory: each rank moves one block of every rank's buffers. It reads the block where all contributions lie,
// reduces them, and writes the result where it is wanted, in one pass and without a slot: a reduction moves each byte
// once, as the "all-pairs" kernels over peer memory of MSCCL++ do. The ranks run in one launch, which begins when all
// have called.
//
// In place, all ranks' buffers are the same memory as their results; a step reads a block everywhere before it writes
// it anywhere, and no other step touches that block.
#include <utility>

#include "algorithms/builders/builders.h"
#include "algorithms/builders/steps.h"

namespace tutti::builders {
namespace {

Operand InOf(int owner, int rank, int block) { return owner == rank ? In(block) : OfPeer(owner, In(block)); }
Operand OutOf(int owner, int rank, int block) { return owner == rank ? Out(block) : OfPeer(owner, Out(block)); }

// Every rank's contribution to a block, in rank order.
std::vector<Operand> Contributions(int rank, int n, int block) {
  std::vector<Operand> reads;
  for (int q = 0; q < n; ++q) {
    reads.push_back(InOf(q, rank, block));
    reads.back().scaled = true;
  }
  return reads;
}

// The block's places in all results, this rank's first (Append).
std::vector<Operand> Everywhere(int rank, int n, int block) {
  std::vector<Operand> writes{Out(block)};
  for (const int q : Others(rank, n)) writes.push_back(OutOf(q, rank, block));
  return writes;
}

Step StepOf(const ScheduleRequest& request) {
  const int rank = request.rank, n = request.nranks, root = request.root;
  switch (request.collective) {
    case Collective::all_reduce:
      return Finally(MakeStep(rank, Contributions(rank, n, rank), Everywhere(rank, n, rank)));
    case Collective::reduce_scatter: return Finally(MakeStep(rank, Contributions(rank, n, rank), {Out(rank)}));
    case Collective::reduce: return Finally(MakeStep(rank, Contributions(rank, n, rank), {OutOf(root, rank, rank)}));
    case Collective::all_gather: return MakeStep(rank, {In(rank)}, Everywhere(rank, n, rank));
    case Collective::broadcast: return MakeStep(rank, {InOf(root, rank, rank)}, Everywhere(rank, n, rank));
    case Collective::gather: return MakeStep(rank, {In(rank)}, {OutOf(root, rank, rank)});
    default: return MakeStep(rank, {InOf(root, rank, rank)}, {Out(rank)});  // scatter
  }
}

}  // namespace

Schedule BuildPeerMemory(const ScheduleRequest& request) {
  Lane lane;
  Append(lane.steps, StepOf(request));
  Schedule schedule = Answer(request, tuttiAlgorithmPeerMemory, request.nranks, ChannelOf(std::move(lane)));
  schedule.one_launch = true;
  schedule.reference_safe = schedule.reference_safe_in_place = true;  // it has no slots
  return schedule;
}

}  // namespace tutti::builders
