// The plans of a communicator's calls on one of its sides, by call; the last one used; and the traffic of all of them.
//
// Thread-safety: used by one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "src/plan/plan_selector.h"
#include "src/plan/planning.h"

namespace tutti::plan {

static_assert(tuttiNumTransports <= TUTTI_COUNTED_TRANSPORTS && tuttiNumAlgorithms <= TUTTI_COUNTED_ALGORITHMS);

// Adds counts of operations and bytes.
inline void AddTraffic(const tuttiCounters_t& more, tuttiCounters_t& counters) {
  counters.operations += more.operations;
  for (std::size_t a = 0; a < TUTTI_COUNTED_ALGORITHMS; ++a) {
    counters.operationsByAlgorithm[a] += more.operationsByAlgorithm[a];
    for (std::size_t t = 0; t < TUTTI_COUNTED_TRANSPORTS; ++t) {
      counters.bytesSent[t][a] += more.bytesSent[t][a];
      counters.bytesReceived[t][a] += more.bytesReceived[t][a];
    }
  }
}

// What plans of all sides have.
struct KeptPlan {
  Choice choice;
  UsedBytes used{};
  std::uint64_t operations = 0;  // of a side's last use: done, or enqueued
};

// `Plan`: a KeptPlan with
//   PlanSummary summary() const;
//   void AddBytes(tuttiTransport_t network, tuttiCounters_t& counters) const;   `network`: between hosts
template <typename Plan>
class PlanTable {
 public:
  explicit PlanTable(tuttiTransport_t network) : network_(network) {}

  // The plan for this key, which `make()` makes if there is none. It lives until Forget().
  template <typename Make>
  Plan& Find(PlanKey key, Make&& make) {
    const auto found = plans_.find(key);
    if (found != plans_.end()) return *found->second;
    return *plans_.emplace(std::move(key), make()).first->second;
  }
  // There are so many plans that all should be forgotten.
  bool full() const { return plans_.size() >= kMaxPlans; }
  // Forgets all plans, but neither their traffic nor the summary of the last one used. REQUIRES: none is in use.
  void Forget() {
    AddOwn(forgotten_);
    forgotten_last_ = last();
    last_ = nullptr;
    plans_.clear();
  }

  void Use(const Plan& plan) { last_ = &plan; }
  // Of the plan used last.
  std::optional<PlanSummary> last() const {
    return last_ != nullptr ? std::optional(last_->summary()) : forgotten_last_;
  }
  // Adds what all plans so far have moved.
  void AddTraffic(tuttiCounters_t& counters) const {
    plan::AddTraffic(forgotten_, counters);
    AddOwn(counters);
  }

 private:
  void AddOwn(tuttiCounters_t& counters) const {
    for (const auto& [key, plan] : plans_) {
      counters.operations += plan->operations;
      counters.operationsByAlgorithm[plan->choice.candidate.algorithm] += plan->operations;
      plan->AddBytes(network_, counters);
    }
  }

  tuttiTransport_t network_;
  std::unordered_map<PlanKey, std::unique_ptr<Plan>, PlanKeyHash> plans_;
  const Plan* last_ = nullptr;
  std::optional<PlanSummary> forgotten_last_;
  tuttiCounters_t forgotten_{};  // the traffic of forgotten plans
};

}  // namespace tutti::plan
