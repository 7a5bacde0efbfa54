// Direct: every rank meets every other one without a detour. One-shot: every rank posts everything and reduces all of
// it itself, in one trip. Inside a host this is flat copy-in / copy-out through shared slots.
#include <utility>

#include "algorithms/builders/builders.h"
#include "algorithms/builders/steps.h"

namespace tutti::builders {
namespace {

Channel AllReduce(int rank, int n, bool posts) {
  Step reduce = Finally(MakeStep(0, ContributionsInRankOrder(rank, n, 0, posts ? Post : From), {Out(0)}));
  if (n == 1) return {{Lane{{std::move(reduce)}}}};
  Lane give;
  AppendForAll(give, 0, Scaled(0), rank, n, posts);
  // In place, the result would overwrite a contribution that has not left yet.
  reduce.after = {{0, static_cast<std::int16_t>(give.steps.size() - 1)}};
  return ChannelOf(std::move(give), Lane{{std::move(reduce)}});
}

Channel ReduceScatter(int rank, int n) {
  Lane send;
  for (const int q : Others(rank, n)) send.steps.push_back(MakeStep(q, {Scaled(q)}, {To(q)}));
  Lane reduce{{Finally(MakeStep(rank, ContributionsInRankOrder(rank, n, rank, From), {Out(rank)}))}};
  if (n == 1) return ChannelOf(std::move(reduce));
  return ChannelOf(std::move(send), std::move(reduce));
}

Channel AllGather(int rank, int n, bool posts) {
  if (n == 1) return {{Lane{{MakeStep(0, {In(0)}, {Out(0)})}}}};
  Lane publish;
  if (posts) {
    publish.steps.push_back(MakeStep(rank, {In(rank)}, {Out(rank), Post(rank)}));
  } else {
    AppendForAll(publish, rank, In(rank), rank, n, posts);
    publish.steps.push_back(MakeStep(rank, {In(rank)}, {Out(rank)}));
  }
  Lane collect;
  for (const int q : Others(rank, n)) collect.steps.push_back(MakeStep(q, {posts ? Post(q) : From(q)}, {Out(q)}));
  return ChannelOf(std::move(publish), std::move(collect));
}

// Every block is sent before its place is overwritten, which in-place calls need.
Channel AllToAll(int rank, int n) {
  Lane send;
  Lane receive;
  for (const int q : Others(rank, n)) {
    const auto sent = static_cast<std::int16_t>(send.steps.size());
    send.steps.push_back(MakeStep(q, {In(q)}, {To(q)}));
    receive.steps.push_back(MakeStep(n + q, {From(q)}, {Out(q)}));
    receive.steps.back().after = {{0, sent}};
  }
  send.steps.push_back(MakeStep(rank, {In(rank)}, {Out(rank)}));
  if (n == 1) return ChannelOf(std::move(send));
  return ChannelOf(std::move(send), std::move(receive));
}

Channel Broadcast(int rank, int n, int root, bool posts) {
  if (n == 1) return {{Lane{{MakeStep(0, {In(0)}, {Out(0)})}}}};
  if (rank != root) return {{Lane{{MakeStep(0, {posts ? Post(root) : From(root)}, {Out(0)})}}}};
  if (posts) return {{Lane{{MakeStep(0, {In(0)}, {Out(0), Post(root)})}}}};
  Lane give;
  AppendForAll(give, 0, In(0), rank, n, posts);
  give.steps.push_back(MakeStep(0, {In(0)}, {Out(0)}));
  return ChannelOf(std::move(give));
}

Channel Reduce(int rank, int n, int root) {
  if (rank != root) return {{Lane{{MakeStep(0, {Scaled(0)}, {To(root)})}}}};
  return {{Lane{{Finally(MakeStep(0, ContributionsInRankOrder(rank, n, 0, From), {Out(0)}))}}}};
}

Channel Gather(int rank, int n, int root) {
  if (rank != root) return {{Lane{{MakeStep(rank, {In(rank)}, {To(root)})}}}};
  Lane lane{{MakeStep(root, {In(root)}, {Out(root)})}};
  for (const int q : Others(rank, n)) lane.steps.push_back(MakeStep(q, {From(q)}, {Out(q)}));
  return ChannelOf(std::move(lane));
}

Channel Scatter(int rank, int n, int root) {
  if (rank != root) return {{Lane{{MakeStep(rank, {From(root)}, {Out(rank)})}}}};
  Lane lane;
  for (const int q : Others(rank, n)) lane.steps.push_back(MakeStep(q, {In(q)}, {To(q)}));
  lane.steps.push_back(MakeStep(root, {In(root)}, {Out(root)}));
  return ChannelOf(std::move(lane));
}

Channel BuildChannel(const ScheduleRequest& request) {
  const auto [collective, rank, n, root, channels, where, posts] = request;
  switch (collective) {
    case Collective::all_reduce: return AllReduce(rank, n, posts);
    case Collective::reduce_scatter: return ReduceScatter(rank, n);
    case Collective::all_gather: return AllGather(rank, n, posts);
    case Collective::all_to_all: return AllToAll(rank, n);
    case Collective::broadcast: return Broadcast(rank, n, root, posts);
    case Collective::reduce: return Reduce(rank, n, root);
    case Collective::gather: return Gather(rank, n, root);
    case Collective::scatter: return Scatter(rank, n, root);
    default: return {};  // not scheduled
  }
}

// One block where all ranks' whole buffers are combined; else one block per rank.
int BlocksOf(const ScheduleRequest& request) {
  switch (request.collective) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce: return 1;
    default: return request.nranks;
  }
}

// In place, an all-reduce or all-to-all overwrites data that a slow peer may still have to read.
bool ReferenceSafeInPlace(const ScheduleRequest& request) {
  return request.nranks == 1 ||
         (request.collective != Collective::all_reduce && request.collective != Collective::all_to_all);
}

}  // namespace

Schedule BuildDirect(const ScheduleRequest& request) {
  Schedule schedule = Answer(request, BlocksOf(request), BuildChannel(request));
  schedule.reference_safe = true;
  schedule.reference_safe_in_place = ReferenceSafeInPlace(request);
  return schedule;
}

}  // namespace tutti::builders
