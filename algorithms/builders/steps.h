// Helpers that the builders share.
//
// Thread-safety: pure functions.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "algorithms/builders/build.h"

namespace tutti::builders {

inline Step MakeStep(int block, std::vector<Operand> reads, std::vector<Operand> writes) {
  return {static_cast<std::int16_t>(block), std::move(reads), std::move(writes)};
}

// The step's result is the collective's result.
inline Step Finally(Step step) {
  step.final = true;
  return step;
}

// Adds the step, split where it has more operands than one may have: partial sums wait in scratch[0], and a step passes
// on from the output what the one before could not write. REQUIRES: the schedule has scratch[0], which only this lane
// uses, if there may be more than kMaxReads reads; more than kMaxWrites writes begin with the block's output.
inline void Append(std::vector<Step>& steps, Step step) {
  const auto limit = [](int most) { return static_cast<std::ptrdiff_t>(most); };
  while (std::ssize(step.reads) > kMaxReads) {
    const auto rest = step.reads.begin() + limit(kMaxReads);
    steps.push_back(MakeStep(step.block, {step.reads.begin(), rest}, {Scratch(0)}));
    step.reads.erase(step.reads.begin(), rest);
    step.reads.insert(step.reads.begin(), Scratch(0));
  }
  std::vector<Operand> writes = std::move(step.writes);
  for (;;) {
    const auto now = writes.begin() + std::min(std::ssize(writes), limit(kMaxWrites));
    step.writes.assign(writes.begin(), now);
    writes.erase(writes.begin(), now);
    steps.push_back(step);
    if (writes.empty()) return;
    step = MakeStep(step.block, {Out(step.block)}, {});
  }
}

// x modulo n, never negative: blocks and ranks on a circle of n.
constexpr int Around(int x, int n) { return ((x % n) + n) % n; }

// All other ranks, starting after `rank`, which spreads the first meetings over all pairs.
inline std::vector<int> Others(int rank, int n) {
  std::vector<int> others;
  for (int i = 1; i < n; ++i) others.push_back((rank + i) % n);
  return others;
}

// Sends to all other ranks: one post, or a slot to each by `connection`.
inline void AppendForAll(Lane& lane, int block, const Operand& from, int rank, int n, bool posts, int connection = 0) {
  if (posts) {
    lane.steps.push_back(MakeStep(block, {from}, {Post(rank)}));
    return;
  }
  for (const int q : Others(rank, n)) lane.steps.push_back(MakeStep(block, {from}, {By(connection, To(q))}));
}

// Between hosts, slots for the same rank ride in one message if nothing is waited for in between.
inline constexpr std::size_t kRideTogether = 2;

// A rank's exchange of blocks with others: calls send(block) and receive(block) in turn, for kRideTogether blocks at a time. So
// no rank fills more than twice as many slots before the receiver has emptied some, and every protocol has those.
template <std::invocable<int> Send, std::invocable<int> Receive>
void SendAndReceive(const std::vector<int>& sent, const std::vector<int>& received, const Send& send,
                    const Receive& receive) {
  for (std::size_t i = 0; i < std::max(sent.size(), received.size()); i += kRideTogether) {
    for (std::size_t s = i; s < std::min(i + kRideTogether, sent.size()); ++s) send(sent[s]);
    for (std::size_t r = i; r < std::min(i + kRideTogether, received.size()); ++r) receive(received[r]);
  }
}

// All contributions to one block in rank order: the same expression over ranks 0..n-1 wherever it is computed. `theirs`
// (From, Post, or the peers' memory) says how a rank's contribution arrives.
template <std::invocable<int> Theirs>
std::vector<Operand> ContributionsInRankOrder(int rank, int n, int block, const Theirs& theirs) {
  std::vector<Operand> reads;
  for (int q = 0; q < n; ++q) reads.push_back(q == rank ? Scaled(block) : theirs(q));
  return reads;
}

// Schedules of a thousand ranks are long, so lanes are moved; an initializer list would copy every step.
template <std::same_as<Lane>... Lanes>
Channel ChannelOf(Lanes... lanes) {
  Channel channel;
  channel.lanes.reserve(sizeof...(lanes));
  (channel.lanes.push_back(std::move(lanes)), ...);
  return channel;
}
// REQUIRES: times >= 1.
inline std::vector<Channel> Repeated(Channel channel, int times) {
  std::vector<Channel> channels(static_cast<std::size_t>(times) - 1, channel);
  channels.push_back(std::move(channel));
  return channels;
}

// The answer to `request`: the same channel as often as it asks for. Build() says by which algorithm.
inline Schedule Answer(const ScheduleRequest& request, int blocks, Channel channel) {
  return {.collective = request.collective,
          .algorithm = tuttiAlgorithmNone,
          .rank = request.rank,
          .nranks = request.nranks,
          .root = request.root,
          .blocks = blocks,
          .channels = Repeated(std::move(channel), request.channels)};
}

}  // namespace tutti::builders
