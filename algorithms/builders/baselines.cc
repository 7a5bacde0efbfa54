// The baselines that the literature compares with, as schedules like any other. They are chosen only if forced.
#include <utility>

#include "algorithms/builders/builders.h"
#include "algorithms/builders/steps.h"

namespace tutti::builders {
namespace {

// Room for the partial sums of more contributions than one step reads (Append).
int ScratchFor(int contributions) { return contributions > kMaxReads ? 1 : 0; }

Lane Serve(const ScheduleRequest& request) {
  const auto& [collective, rank, n, root, channels, where, posts] = request;
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

Schedule BuildParameterServer(const ScheduleRequest& request) {
  const int server = HasRoot(request.collective) ? request.root : 0;
  const bool serves = request.rank == server;
  Schedule schedule = Answer(request, 1, serves ? Channel{{Serve(request)}} : WorkFor(server, request.collective));
  schedule.scratch_blocks = serves ? ScratchFor(request.nranks) : 0;
  schedule.reference_safe = true;
  schedule.reference_safe_in_place = true;
  return schedule;
}

Schedule BuildAllToAllBroadcast(const ScheduleRequest& request) {
  const int n = request.nranks;
  Lane send;
  for (const int q : Others(request.rank, n)) send.steps.push_back(MakeStep(0, {Scaled(0)}, {To(q)}));
  Step sum = Finally(MakeStep(0, ContributionsInRankOrder(request.rank, n, 0, From), {Out(0)}));
  // In place, the sum overwrites the contribution, which must have left.
  sum.after = {{0, static_cast<std::int16_t>(n - 2)}};
  Lane add;
  Append(add.steps, std::move(sum));
  Schedule schedule = Answer(request, 1, {{std::move(send), std::move(add)}});
  schedule.scratch_blocks = ScratchFor(n);
  schedule.reference_safe = true;
  schedule.reference_safe_in_place = false;
  return schedule;
}

}  // namespace tutti::builders
