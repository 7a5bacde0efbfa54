#include "tools/target.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <thread>

#include "algorithms/calibration.h"
#include "algorithms/host_machine.h"
#include "algorithms/machine_of_system.h"
#include "base/error.h"
#include "tools/candidate_timer.h"
#include "topology/xml.h"

namespace tutti::tools {

void AddTargetOptions(CLI::App& command, TargetOptions& options) {
  options.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  command.add_option("--topo", options.topology, "the host, as NCCL topology XML; without it, ranks in shared memory");
  command.add_option("--nodes", options.nodes, "how many such hosts")->check(CLI::Range(1, 32'000));
  command.add_option("--ranks", options.ranks, "in all; default: one for each GPU (or core)")
      ->check(CLI::Range(1, 32'000));
  command.add_option("--cores", options.cores, "that ranks in shared memory have, together")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--calibration", options.calibration,
                     "file of tutti calibrate; none: defaults; empty: the usual place");
}

Target TargetOf(const TargetOptions& options) {
  if (options.topology.empty()) {
    if (options.nodes != 1) Throw(tuttiInvalidArgument, "--nodes {} needs --topo: a host to repeat", options.nodes);
    const HostCosts costs = LoadCalibration(options.calibration, options.cores).costs;
    return {HostMachine(costs, ArrangeEvenly(options.ranks > 0 ? options.ranks : options.cores, 1)), false};
  }
  if (options.ranks % options.nodes != 0) {
    Throw(tuttiInvalidArgument, "{} ranks are not the same number on each of {} nodes", options.ranks, options.nodes);
  }
  return {MachineOfSystem(ReadTopologyFile(options.topology).system, options.nodes, options.ranks / options.nodes),
          true};
}

Conditions ConditionsOf(const Target& target) {
  Conditions conditions = HostConditions(target.machine.nranks());
  conditions.where = target.machine.arrangement();
  if (!target.gpus) return conditions;
  constexpr std::size_t kLongestGpuSlot = 512 * 1024;
  conditions.one_host = target.machine.arrangement().nodes() == 1;
  conditions.max_channels = kMostGpuChannels;
  conditions.threads = 0;
  conditions.bulk_capacity = kLongestGpuSlot;
  return conditions;
}

}  // namespace tutti::tools
