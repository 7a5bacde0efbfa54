// The time of one step of a strategy on a cluster: computing at a given rate, communication as priced by the selector
// on the group's own GPUs, or as simulated there, less the part that computing hides.
//
// Thread-safety: an object is used by one thread.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "selection/tuner/tuner.h"
#include "tools/planner/plan_strategy.h"
#include "topology/graph/system.h"

namespace tutti::tools {

struct Cluster {
  topology::System node;
  int nodes = 1;
  int gpus = 0;            // per node
  double tflops = 0;       // per GPU, bf16, from its data sheet
  double efficiency = 0;   // fraction of that reached in matrix multiplications of this kind
  double memory_gb = 0;    // per GPU; GB = 10^9 bytes
  double reserved_gb = 0;  // for contexts, kernel workspaces and fragmentation

  int ranks() const { return nodes * gpus; }
  double room() const { return (memory_gb - reserved_gb) * 1e9; }  // bytes per GPU
};

// `size` ranks that are `stride` apart; tensor parallelism has stride 1.
struct GroupShape {
  int size = 1;
  int stride = 1;
};

// Seconds of a step, by cause.
struct StepTime {
  double compute = 0;  // of the fullest stage, all its micro-batches, recomputing included
  double tensor = 0;   // all-gathers and reduce-scatters of tensor parallelism
  double experts = 0;  // all-to-alls
  double context = 0;  // of the ring, the part not hidden by attention
  double bubble = 0;   // pipeline
  double pipeline_sends = 0;
  double data = 0;  // gradients and parameters, the part not hidden by computing
  double total() const { return compute + tensor + experts + context + bubble + pipeline_sends + data; }
};

// Source of a collective's time: the selector's price of its choice, or a simulation of that choice. Beyond the largest
// simulated size, simulated times grow in proportion to prices; a simulation that would play more than 64 ranks one by
// one is replaced by the price.
enum class TimeSource { price, simulation };

class StepCosts {
 public:
  StepCosts(const Cluster& cluster, const LanguageModel& model, TimeSource source = TimeSource::price)
      : cluster_(cluster), model_(model), source_(source) {}

  StepTime TimeOf(const Strategy& strategy);
  // Seconds of a collective of `bytes` (as nccl-tests count: the larger side of a rank) in each of the groups that
  // share the cluster, all at the same time. Priced at powers of four, and interpolated linearly.
  double Seconds(schedule::Collective collective, const GroupShape& group, double bytes);
  // Time of a send between neighbours of a pipeline.
  double SendSeconds(int stride, double bytes);

 private:
  struct Place {
    cost_model::Machine machine;
    cost_model::TuningContext tuning;
    tuner::Tuner tuner;
    double sharing = 1;                                              // groups that share a NIC
    std::map<std::pair<schedule::Collective, int>, double> seconds;  // by bytes as a power of four
    std::map<std::pair<schedule::Collective, int>, double> played;   // ratio of simulation to price, likewise
    Place(cost_model::Machine its_machine, double groups);
    std::size_t BlockBytes(schedule::Collective collective, int power) const;
    tuner::Estimate Choice(schedule::Collective collective, int power);  // the selector's
  };
  Place& PlaceOf(const GroupShape& group);
  // Seconds for 4^power bytes.
  double AtPower(schedule::Collective collective, const GroupShape& group, int power);
  double Microseconds(Place& place, schedule::Collective collective, int power) const;
  double SimulationByPrice(Place& place, schedule::Collective collective, int power) const;

  const Cluster& cluster_;
  const LanguageModel& model_;
  const TimeSource source_;
  std::map<std::pair<int, int>, std::unique_ptr<Place>> places_;  // by ranks per node, and nodes
};

}  // namespace tutti::tools
