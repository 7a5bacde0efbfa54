#include "tutti/parallel/replica_router.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <thread>

#include "parallel/serving/replica_link.h"

namespace tutti::parallel {

ReplicaRouter::ReplicaRouter(ProcessGroup& world, const ReplicaLayout& layout, ReplicaPolicy policy,
                             const tuttiConfig_t& config)
    : policy_(policy) {
  CheckLayout(layout);
  require_equal("this rank", static_cast<std::size_t>(world.rank()), "the front",
                static_cast<std::size_t>(layout.front));
  for (std::size_t i = 0; i < layout.replicas.size(); ++i) {
    links_.push_back(std::make_unique<ReplicaLink>(world, layout, i, config));
  }
}

ReplicaRouter::~ReplicaRouter() = default;

ReplicaLink& ReplicaRouter::Choose() {
  std::size_t chosen = links_.size();
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const std::size_t replica = (next_ + i) % links_.size();
    if (!links_[replica]->takes_requests()) continue;
    if (chosen == links_.size() || (policy_ == ReplicaPolicy::least_outstanding &&
                                    statistics(replica).outstanding_cost < statistics(chosen).outstanding_cost)) {
      chosen = replica;
    }
  }
  if (chosen == links_.size()) {
    throw Error(tuttiRemoteError, fmt::format("none of the {} replicas is left to accept requests", links_.size()));
  }
  next_ = chosen + 1;
  return *links_[chosen];
}

std::uint64_t ReplicaRouter::submit(Bytes request, std::uint64_t cost) {
  if (stopped_) throw Error(tuttiInvalidUsage, "submit() was called after stop(): the replicas take no more requests");
  Choose().Add(next_id_, std::move(request), cost);
  return next_id_++;
}

std::optional<Reply> ReplicaRouter::poll() {
  for (auto& link : links_) link->Advance();
  // A replica has at most one reply here, and a later poll receives its next one: none is passed over for long.
  for (auto& link : links_) {
    if (link->has_reply()) return link->TakeReply();
  }
  return std::nullopt;
}

Reply ReplicaRouter::wait() {
  constexpr std::chrono::microseconds kPause(50);
  while (outstanding() > 0) {
    if (auto reply = poll()) return *std::move(reply);
    std::this_thread::sleep_for(kPause);
  }
  throw Error(tuttiInvalidUsage, "wait() was called while 0 requests are outstanding: submit() one first");
}

void ReplicaRouter::stop() {
  if (outstanding() > 0) {
    throw Error(tuttiInvalidUsage,
                fmt::format("stop() was called while {} requests are outstanding: wait() for their replies first",
                            outstanding()));
  }
  stopped_ = true;
  for (auto& link : links_) link->AddStop();
  std::exception_ptr lost;
  for (auto& link : links_) {
    try {
      for (link->Advance(); !link->all_sent(); link->Advance()) std::this_thread::yield();
    } catch (const ReplicaError&) {
      if (!lost) lost = std::current_exception();
    }
  }
  if (lost) std::rethrow_exception(lost);
}

void ReplicaRouter::revoke() {
  for (auto& link : links_) link->Revoke();
}

std::size_t ReplicaRouter::outstanding() const {
  std::size_t requests = 0;
  for (const auto& link : links_) requests += link->outstanding();
  return requests;
}

const ReplicaStatistics& ReplicaRouter::statistics(std::size_t replica) const {
  return links_.at(replica)->statistics();
}

}  // namespace tutti::parallel
