#include "parallel/serving/replica_link.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "parallel/mesh/calls_from_user.h"

namespace tutti::parallel {
namespace {

std::vector<int> RanksOf(const ReplicaLayout& layout, std::size_t replica) {
  auto ranks = layout.replicas[replica];
  ranks.push_back(layout.front);
  std::ranges::sort(ranks);
  return ranks;
}

// A replica may be without requests, or compute, for a day.
tuttiConfig_t Patient(tuttiConfig_t config) {
  constexpr int kDayMs = 86'400'000;
  if (config.operationTimeoutMs == TUTTI_CONFIG_UNDEF_INT) config.operationTimeoutMs = kDayMs;
  return config;
}

}  // namespace

void CheckLayout(const ReplicaLayout& layout) {
  std::vector<int> seen{layout.front};
  for (const auto& replica : layout.replicas) {
    if (replica.empty()) throw Error(tuttiInvalidArgument, "a replica has 0 ranks, but at least 1 is needed");
    seen.insert(seen.end(), replica.begin(), replica.end());
  }
  if (layout.replicas.empty()) throw Error(tuttiInvalidArgument, "there are 0 replicas, but at least 1 is needed");
  std::ranges::sort(seen);
  const auto twice = std::ranges::adjacent_find(seen);
  if (twice == seen.end()) return;
  throw Error(
      tuttiInvalidArgument,
      fmt::format(
          "rank {} occurs twice in the layout of replicas: a rank is either the front (rank {}) or in one replica",
          *twice, layout.front));
}

HostStream NewStream() {
  tuttiStream_t stream = nullptr;
  check(tuttiStreamCreate(&stream));
  return HostStream(stream);
}

bool IsIdle(const HostStream& stream, ProcessGroup& group) {
  const auto state = tuttiStreamQuery(stream.get());
  if (state == tuttiInProgress) return false;
  check(state, group.comm());
  return true;
}

ReplicaGroups::ReplicaGroups(ProcessGroup& world, const ReplicaLayout& layout, std::size_t replica,
                             const tuttiConfig_t& given)
    : config(Patient(given)),
      requests(world, fmt::format("requests of replica {}", replica), RanksOf(layout, replica), config),
      replies(world, fmt::format("replies of replica {}", replica), RanksOf(layout, replica), config),
      front(static_cast<int>(std::ranges::find(requests.ranks(), layout.front) - requests.ranks().begin())) {}

void ReplicaGroups::Join() {
  requests.comm();
  replies.comm();
}

void ReplicaGroups::Broadcast(void* data, std::size_t bytes, tuttiStream_t stream) {
  if (bytes == 0) return;
  const CallsFromUser user;
  check(tuttiBcast(data, bytes, tuttiUint8, front, requests.comm(), stream), requests.comm());
}

void ReplicaGroups::Revoke() {
  tuttiCommRevoke(requests.comm(), TUTTI_REVOKE_DEFAULT);
  tuttiCommRevoke(replies.comm(), TUTTI_REVOKE_DEFAULT);
}

ReplicaLink::ReplicaLink(ProcessGroup& world, const ReplicaLayout& layout, std::size_t replica,
                         const tuttiConfig_t& config)
    : replica_(replica),
      groups_(world, layout, replica, config),
      request_stream_(NewStream()),
      reply_stream_(NewStream()) {
  groups_.Join();
}

void ReplicaLink::Add(std::uint64_t id, Bytes request, std::uint64_t cost) {
  costs_[id] = cost;
  ++statistics_.submitted;
  statistics_.outstanding_cost += cost;
  const ReplicaHeader header{.id = id, .bytes = request.size()};
  queue_.push_back({header, std::move(request)});
}

void ReplicaLink::AddStop() {
  if (takes_requests()) queue_.push_back({{.last = 1}, {}});
  stopping_ = true;
}

void ReplicaLink::Advance() {
  if (!statistics_.alive) return;
  try {
    Send();
    Receive();
  } catch (const Error& error) {
    Lose(error);
  }
}

void ReplicaLink::Send() {
  if (sending_ && IsIdle(request_stream_, groups_.requests)) {
    queue_.pop_front();
    sending_ = false;
  }
  if (sending_ || queue_.empty()) return;
  auto& [header, bytes] = queue_.front();
  sending_ = true;
  groups_.Broadcast(&header, sizeof header, request_stream_.get());
  groups_.Broadcast(bytes.data(), bytes.size(), request_stream_.get());
}

void ReplicaLink::Receive(void* data, std::size_t bytes, Awaited awaited) {
  awaited_ = awaited;
  const CallsFromUser user;
  const auto comm = groups_.replies.comm();
  check(tuttiRecv(data, bytes, tuttiUint8, groups_.speaker(), comm, reply_stream_.get()), comm);
}

void ReplicaLink::Receive() {
  if (awaited_ == Awaited::nothing) {
    if (!arrived_ && !costs_.empty()) Receive(&header_, sizeof header_, Awaited::header);
    return;
  }
  if (!IsIdle(reply_stream_, groups_.replies)) return;
  if (awaited_ == Awaited::header) {
    bytes_.resize(header_.bytes);
    if (!bytes_.empty()) return Receive(bytes_.data(), bytes_.size(), Awaited::bytes);
  }
  awaited_ = Awaited::nothing;
  arrived_ = true;
}

Reply ReplicaLink::TakeReply() {
  arrived_ = false;
  ++statistics_.replied;
  const auto request = costs_.find(header_.id);  // a replica answers only what it has been given, and once
  statistics_.outstanding_cost -= request->second;
  costs_.erase(request);
  return {header_.id, replica_, std::exchange(bytes_, {})};
}

void ReplicaLink::End() {
  if (!sending_ && awaited_ == Awaited::nothing) return;
  groups_.Revoke();
  tuttiStreamSynchronize(request_stream_.get());
  tuttiStreamSynchronize(reply_stream_.get());
  sending_ = false;
  awaited_ = Awaited::nothing;
}

void ReplicaLink::Lose(const Error& error) {
  std::vector<std::uint64_t> outstanding;
  for (const auto& [id, cost] : costs_) outstanding.push_back(id);
  auto ranks = groups_.requests.ranks();
  ranks.erase(ranks.begin() + groups_.front);
  End();
  statistics_.alive = false;
  statistics_.outstanding_cost = 0;
  arrived_ = false;
  costs_.clear();
  queue_.clear();
  const auto message =
      fmt::format("replica {} (ranks {} of the world) is gone; requests that it has not answered: {}; {}", replica_,
                  fmt::join(ranks, ", "), outstanding.size(), error.what());
  throw ReplicaError(error.code(), message, replica_, std::move(outstanding));
}

}  // namespace tutti::parallel
