// Bound plans by call. A repeated call finds its plan without allocating or locking.
//
// Thread-safety: used by the thread that drives the communicator.
#pragma once

#include <memory>

#include "executors/host/run.h"
#include "src/plan/plan_selector.h"
#include "src/plan/plan_table.h"
#include "src/plan/planned_call.h"
#include "src/plan/trials.h"

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

struct BoundPlan : KeptPlan {
  // `operation` as Scheduled() returns it.
  BoundPlan(PlannedCall planned, const Operation& operation, const PlanContext& context);

  std::uint64_t signature;
  host::Plan plan;
  host::Run run;
  Trial* trial = nullptr;  // of the call; null: none
  std::size_t tried = 0;   // the number of this plan in it
  std::size_t touched;     // bytes, by all ranks of a cache
  std::size_t cached;      // bytes that the cache holds

  // Whether results are stored past the caches.
  bool StreamsOutput(const Operation& asked) const;
  PlanSummary summary() const;
  void AddBytes(tuttiTransport_t network, tuttiCounters_t& counters) const;
};

class PlanCache : public PlanTable<BoundPlan> {
 public:
  explicit PlanCache(const PlanContext& context) : PlanTable(context.transport), context_(context) {}

  // The plan for this call, or the one whose turn it is in its trial. The reference holds until the next Forget().
  BoundPlan& Find(const Operation& operation, std::uint64_t packed, Trial* trial = nullptr) {
    const bool again = found_ != nullptr && found_call_ == packed && found_count_ == operation.count &&
                       operation.plain() && (trial == nullptr || found_->tried == trial->next());
    return again ? *found_ : FindSlowly(operation, packed, trial);
  }
  void Forget() {
    PlanTable::Forget();
    found_ = nullptr;
  }

 private:
  class HostPlanner;
  std::unique_ptr<BoundPlan> Make(const Operation& operation, Trial* trial) const;
  BoundPlan& FindSlowly(const Operation& operation, std::uint64_t packed, Trial* trial);

  PlanContext context_;
  // The last plan found, for loops over one call.
  BoundPlan* found_ = nullptr;
  std::uint64_t found_call_ = 0;
  std::uint64_t found_count_ = 0;
};

}  // namespace tutti::plan
