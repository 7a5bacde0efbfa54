#include "algorithms/builders/baselines.h"

#include <utility>

#include "algorithms/builders/steps.h"

namespace tutti {
namespace {

// Room for the partial sums of more contributions than one step reads (Append).
int ScratchFor(int contributions) { return contributions > kMaxReads ? 1 : 0; }

Lane Serve(const Question& question) {
  const auto& [collective, rank, n, root, channels, where, posts] = question;
  std::vector<Operand> writes = {Out(0)};
  if (collective != Collective::reduce) {
    for (const int worker : Others(rank, n)) writes.push_back(To(worker));
  }
  Lane lane;
  if (IsReducing(collective)) {
    Append(lane.steps, Finally(MakeStep(0, ContributionsInRankOrder(rank, n, 0, From), std::move(writes))));
  } else {
    Append(lane.steps, MakeStep(0, {In(0)}, std::move(writes)));
  }
  return lane;
}

Channel WorkFor(int server, Collective collective) {
  Channel channel;
  if (IsReducing(collective)) channel.lanes.push_back({{MakeStep(0, {Scaled(0)}, {To(server)})}});
  if (collective != Collective::reduce) channel.lanes.push_back({{MakeStep(0, {From(server)}, {Out(0)})}});
  return channel;
}

}  // namespace

Schedule BuildParameterServer(const Question& question) {
  const int server = HasRoot(question.collective) ? question.root : 0;
  const bool serves = question.rank == server;
  Schedule schedule = Answer(question, tuttiAlgorithmParameterServer, 1,
                             serves ? Channel{{Serve(question)}} : WorkFor(server, question.collective));
  schedule.scratch_blocks = serves ? ScratchFor(question.nranks) : 0;
  schedule.reference_safe = true;
  schedule.reference_safe_in_place = true;
  return schedule;
}

Schedule BuildAllToAllBroadcast(const Question& question) {
  const int n = question.nranks;
  Lane send;
  for (const int q : Others(question.rank, n)) send.steps.push_back(MakeStep(0, {Scaled(0)}, {To(q)}));
  Step sum = Finally(MakeStep(0, ContributionsInRankOrder(question.rank, n, 0, From), {Out(0)}));
  // In place, the sum overwrites the contribution, which must have left.
  sum.after = {{0, static_cast<std::int16_t>(n - 2)}};
  Lane add;
  Append(add.steps, std::move(sum));
  Schedule schedule = Answer(question, tuttiAlgorithmAllToAllBroadcast, 1, {{std::move(send), std::move(add)}});
  schedule.scratch_blocks = ScratchFor(n);
  schedule.reference_safe = true;
  schedule.reference_safe_in_place = false;
  return schedule;
}

}  // namespace tutti
