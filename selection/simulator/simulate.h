// Runs all ranks' schedules - the very ones that executors run - over a machine in virtual time. machine.h and
// docs/simulator.md describe the model; slots, their number, chunks and lanes are as in executors/host.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/builders/build.h"
#include "algorithms/schedule/extents.h"
#include "selection/cost_model/machine.h"
#include "selection/simulator/flat_schedules.h"
#include "selection/tuner/tuner.h"

namespace tutti::simulator {

// When everything happened, in us.
struct Timeline {
  struct Step {
    int rank;
    int channel;
    int lane;
    int step;
    int chunk;
    double begin;
    double end;
  };
  struct Flow {
    int from;
    int to;
    int channel;
    double bytes;  // over the links
    double begin;
    double end;
    std::vector<int> route;
  };
  std::vector<Step> steps;
  std::vector<Flow> flows;
};

struct SimulationResult {
  double duration_us = 0;
  // Bytes over each resource of the machine, flags included; 0 on nodes that another node stands for.
  std::vector<double> bytes_over = {};
  std::size_t steps = 0;  // done by all simulated ranks
  // A resource's utilisation while the operation runs; 0 .. 1.
  double Utilisation(const cost_model::Machine& machine, int resource) const;
};

// The schedules to run, and the machine. All ranks' blocks have the same lengths; `source` gives a rank's schedule.
struct SimulationInput {
  const cost_model::Machine& machine;
  FlatSchedules::Source source;
  schedule::Extents extents;
  schedule::ProtocolConfig config;
  int depth = 0;                              // slots of a connection; 0: SlotDepth
  const NodeClasses* node_classes = nullptr;  // null: every rank is simulated
  Timeline* timeline = nullptr;               // filled if given
  double footprint_bytes = 0;                 // that a node's ranks touch together, see Costs::executor_bandwidth
  int threads = 1;  // of a rank, at most; each has a core and drives an equal share of the channels
};

// Throws, naming a lane that waits, if the schedules cannot end.
SimulationResult Simulate(const SimulationInput& input);

// A collective of `bytes` (as in UniformExtents) by an algorithm.
struct SimulatedCall {
  schedule::Collective collective = schedule::Collective::all_reduce;
  tuttiAlgorithm_t algorithm = tuttiAlgorithmNone;
  std::size_t bytes = 0;
  int channels = 1;
  schedule::ProtocolConfig config = {};
  int root = 0;
  int depth = 0;
  const std::vector<schedule::Schedule>* program = nullptr;  // builders::kFromFiles: all ranks' schedules
};
// The rank's schedule in the call. REQUIRES: a program, or Supports(algorithm, collective, machine.nranks()).
schedule::Schedule ScheduleOf(const cost_model::Machine& machine, const SimulatedCall& call, int rank);
// REQUIRES: as above.
SimulationResult Simulate(const cost_model::Machine& machine, const SimulatedCall& call,
                          const NodeClasses* node_classes = nullptr, Timeline* timeline = nullptr);

}  // namespace tutti::simulator
