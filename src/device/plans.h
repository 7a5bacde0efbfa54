// Plans of a communicator's calls on GPUs: the algorithm and the program made from it. As on the host
// (plan_selector.h, plan_cache.h), rank 0 prices and ships one table of breakpoints, and a repeated call costs a look-up.
//
// Thread-safety: used by one thread at a time.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/all_gather.h"
#include "executors/cuda/device_program.h"
#include "selection/cost_model/host_machine.h"
#include "selection/tuner/tuner.h"
#include "src/plan/external_tuner.h"
#include "src/plan/plan_selector.h"
#include "src/plan/planning.h"
#include "topology/graph/system.h"
#include "transports/progress/network.h"

namespace tutti::device {

struct DevicePlanContext {
  const cuda_transport::CudaDevice* device;
  const cuda_transport::DeviceFabric* fabric;
  progress::NetworkEngine* network;  // null where all ranks are on one host
  tuttiTransport_t transport;
  std::optional<cost_model::NetworkCosts> network_costs;
  cuda_transport::DeviceArena* arena;
  cost_model::TuningContext tuning;  // equal on all ranks
  const plan::ExternalTuner* external = nullptr;  // outlives this
};

struct DevicePlanEntry {
  plan::Choice choice;
  cuda::DeviceProgram program;
  plan::UsedBytes used;
  std::uint64_t operations = 0;

  std::optional<plan::PlanSummary> summary() const {
    return plan::PlanSummary{choice, program.schedule().channels.size(), program.config()};
  }
};

class DevicePlans {
 public:
  // The traffic of a plan's operations.
  struct Done {
    std::uint64_t operations = 0;
    cuda::DeviceProgram::Traffic on_host, by_network;
    Done& operator+=(const DevicePlanEntry& plan);
  };
  // Collective.
  DevicePlans(DevicePlanContext context, const topology::System& system, int rank, const AllGather& all_gather);

  // The plan for this call; it lives until Forget(). Making one allocates GPU memory.
  DevicePlanEntry& Find(const plan::Operation& operation, std::uint64_t packed);
  // Forgets all plans and releases their part of the arena. REQUIRES: no kernel and no graph uses them.
  void Forget();
  // There are so many plans that all should be forgotten.
  bool full() const { return plans_.size() >= plan::kMaxPlans; }
  // Adds the traffic so far.
  void AddTraffic(tuttiCounters_t& counters) const;
  const cost_model::TuningContext& tuning() const { return context_.tuning; }
  // The predicted time of a collective of dense buffers. `system`: that of the constructor.
  double Microseconds(const topology::System& system, const cost_model::Kind& kind, std::size_t bytes) const;

 private:
  class DevicePlanner;
  std::unique_ptr<DevicePlanEntry> Make(const plan::Operation& operation, std::uint64_t packed) const;
  std::vector<schedule::Schedule> SchedulesOfAll(const plan::Operation& operation,
                                                 const cost_model::Candidate& candidate) const;
  // Whether some calls have plans that others cannot have: by one launch of all ranks, or by a switch that adds.
  bool HasMore() const { return context_.tuning.one_launch || context_.tuning.in_switch; }
  cost_model::TuningContext SlotsAlone() const;  // for the others
  schedule::Schedule Fitted(const plan::Operation& operation, cost_model::Candidate& candidate) const;

  DevicePlanContext context_;
  int rank_;
  cost_model::TuningContext slots_tuning_;  // SlotsAlone()
  tuner::SelectionTable table_, slots_table_;
  std::unique_ptr<plan::Pricing> pricing_, slots_pricing_;  // for an external tuner
  std::unordered_map<plan::PlanKey, std::unique_ptr<DevicePlanEntry>, plan::PlanKeyHash> plans_;
  std::array<Done, TUTTI_COUNTED_ALGORITHMS> done_{};  // by forgotten plans
};

}  // namespace tutti::device
