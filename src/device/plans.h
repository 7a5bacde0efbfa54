// Plans of a communicator's calls on GPUs: the algorithm and the program made from it. As on the host
// (plan_selector.h, plan_cache.h), rank 0 prices and ships one table of breakpoints, and a repeated call costs a look-up.
//
// Thread-safety: used by one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "base/all_gather.h"
#include "executors/cuda/device_program.h"
#include "selection/cost_model/host_machine.h"
#include "selection/tuner/message_table.h"
#include "selection/tuner/tuner.h"
#include "src/device/copy_engines.h"
#include "src/plan/external_tuner.h"
#include "src/plan/plan_table.h"
#include "topology/graph/system.h"
#include "transports/progress/network.h"

namespace tutti::device {

struct DevicePlanContext {
  const cuda_transport::CudaDevice* device;
  cuda_transport::DeviceFabric* fabric;
  progress::NetworkEngine* network;  // null where all ranks are on one host
  tuttiTransport_t transport;
  std::optional<cost_model::NetworkCosts> network_costs;
  cuda_transport::DeviceArena* arena;
  cost_model::TuningContext tuning;  // equal on all ranks
  std::vector<int> gpus = {};        // those of rank 0's host, by rank: devices of the system; none if it lacks them
  bool direct = false;               // NICs of all ranks read and write GPUs' memory
  const plan::ExternalTuner* external = nullptr;  // outlives this
};

struct DevicePlanEntry : plan::KeptPlan {
  cuda::DeviceProgram program;
  std::size_t by_engines =
      0;  // bytes that copy engines move between two runs of the program, each way; 0: kernels do all

  plan::PlanSummary summary() const { return {choice, program.schedule().channels.size(), program.config()}; }
  void AddBytes(tuttiTransport_t network, tuttiCounters_t& counters) const;
};

class DevicePlans : public plan::PlanTable<DevicePlanEntry> {
 public:
  // Collective.
  DevicePlans(DevicePlanContext context, const topology::System& system, int rank, const AllGather& all_gather);

  // The plan for this call; if copy engines carry it, that of the barriers around the copies. Making one allocates GPU memory.
  DevicePlanEntry& Find(const plan::Operation& operation, std::uint64_t packed,
                        const EngineCopies* by_engines = nullptr);
  // Also releases the plans' part of the arena. REQUIRES: no kernel and no graph uses them.
  void Forget() {
    PlanTable::Forget();
    context_.arena->Reset();
  }
  const cost_model::TuningContext& tuning() const { return context_.tuning; }
  // The predicted time of a collective of dense buffers. `system`: that of the constructor.
  double Microseconds(const topology::System& system, const cost_model::Kind& kind, std::size_t bytes) const;

 private:
  class DevicePlanner;
  std::unique_ptr<DevicePlanEntry> Make(const plan::Operation& operation, std::uint64_t packed,
                                        const EngineCopies* by_engines) const;
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
  tuner::MessageTable messages_;
  std::unique_ptr<plan::Pricing> pricing_, slots_pricing_;  // for an external tuner
};

}  // namespace tutti::device
