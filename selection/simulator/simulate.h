// Runs all ranks' schedules - the very ones that executors run - over a machine in virtual time. The model is described
// in machine.h and docs/simulator.md; slots, their number, chunks and lanes are as executors/host has them.
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
#include "selection/tuner/select.h"

namespace tutti {

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
  // Over each resource of the machine, flags included; 0 on nodes for which another one stands.
  std::vector<double> bytes_over = {};
  std::size_t steps = 0;  // done by all simulated ranks
  // Of a resource, while the operation runs; 0 .. 1.
  double Utilisation(const Machine& machine, int resource) const;
};

// What is run, where. Every rank's blocks have the same lengths, and `source` gives the schedule of each rank.
struct SimulationInput {
  const Machine& machine;
  FlatSchedules::Source source;
  Extents extents;
  Shape shape;
  int depth = 0;                     // slots of a connection; 0: SlotDepth
  const Folding* folding = nullptr;  // null: every rank is simulated
  Timeline* timeline = nullptr;      // filled if given
  double footprint_bytes = 0;        // that a node's ranks touch together, see Costs::executor_bandwidth
};

// Throws if the schedules cannot end (and says who waits).
SimulationResult Simulate(const SimulationInput& input);

// A collective of `bytes` (as in UniformExtents) by an algorithm.
struct SimulatedCall {
  Collective collective = Collective::all_reduce;
  tuttiAlgorithm_t algorithm = tuttiAlgorithmRing;
  std::size_t bytes = 0;
  int channels = 1;
  Shape shape = {};
  int root = 0;
  int depth = 0;
  const std::vector<Schedule>* program = nullptr;  // tuttiAlgorithmProgram: all ranks' schedules
};
// What a rank does in it. REQUIRES: a program, or Supports(algorithm, collective, machine.nranks()).
Schedule ScheduleOf(const Machine& machine, const SimulatedCall& call, int rank);
// REQUIRES: as above.
SimulationResult Simulate(const Machine& machine, const SimulatedCall& call, const Folding* folding = nullptr,
                          Timeline* timeline = nullptr);

}  // namespace tutti
