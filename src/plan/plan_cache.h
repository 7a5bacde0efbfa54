// Bound plans by call. A repeated call finds its plan without allocating or locking.
//
// Thread-safety: used by the thread that drives the communicator.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "executors/host/run.h"
#include "src/plan/plan_selector.h"
#include "src/plan/planned_call.h"
#include "src/plan/planning.h"

namespace tutti::plan {

// Everything about plans that is constant for the life of a communicator. All ranks agree on `selector`.
struct PlanContext {
  const PlanSelector* selector;
  const Programs* programs;
  shm::Fabric* fabric;
  const host::WindowMap* windows;
  int collective_channels;           // channels 0.. are the collectives'; the next one is point-to-point
  progress::NetworkEngine* network;  // null where all ranks are on one host
  tuttiTransport_t transport;        // of slots between hosts
};

struct BoundPlan {
  // `operation` as Scheduled() returns it.
  BoundPlan(PlannedCall planned, const Operation& operation, const PlanContext& context);

  Choice choice;
  std::uint64_t signature;
  host::Plan plan;
  host::Run run;
  std::size_t touched;      // bytes, by all ranks of a cache
  std::size_t cached;       // bytes that the cache holds
  std::size_t input_bytes;  // of the buffers, from their first byte to the last one used
  std::size_t output_bytes;
  std::uint64_t operations = 0;  // done

  // Whether results are stored past the caches.
  bool StreamsOutput(const Operation& asked) const;
  std::optional<PlanSummary> summary() const { return PlanSummary{choice, plan.channels().size(), plan.config()}; }
};

class PlanCache {
 public:
  explicit PlanCache(PlanContext context) : context_(context) {}

  // The plan for this call. The reference holds until the next Forget().
  BoundPlan& Find(const Operation& operation, std::uint64_t packed) {
    const bool again = last_ != nullptr && last_call_ == packed && last_count_ == operation.count && operation.plain();
    return again ? *last_ : FindSlowly(operation, packed);
  }
  // There are so many plans that all should be forgotten.
  bool full() const { return plans_.size() >= kMaxPlans; }
  // Forgets all plans, but not their traffic. REQUIRES: no plan is running or kept by a caller.
  void Forget();
  // The operations of all plans so far, and the bytes that they moved.
  tuttiCounters_t Traffic() const;

 private:
  class HostPlanner;
  std::unique_ptr<BoundPlan> Make(const Operation& operation) const;
  void AddTraffic(tuttiCounters_t& counters) const;  // of the plans that are not forgotten
  BoundPlan& FindSlowly(const Operation& operation, std::uint64_t packed);

  PlanContext context_;
  std::unordered_map<PlanKey, std::unique_ptr<BoundPlan>, PlanKeyHash> plans_;
  tuttiCounters_t forgotten_{};  // the traffic of forgotten plans
  // The last plan found, for loops over one call.
  BoundPlan* last_ = nullptr;
  std::uint64_t last_call_ = 0;
  std::uint64_t last_count_ = 0;
};

}  // namespace tutti::plan
