#include "tools/simulator/target.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string_view>
#include <thread>
#include <vector>

#include "base/settings/nearest_name.h"
#include "base/usage_error.h"
#include "executors/cuda/kernels/device_plan.h"
#include "selection/cost_model/host_machine.h"
#include "selection/cost_model/machine_of_system.h"
#include "selection/tuner/calibration.h"
#include "src/device/gpu_slots.h"
#include "tools/tuning/candidate_timer.h"
#include "topology/detect/detect.h"
#include "topology/detect/host.h"
#include "topology/graph/domains.h"
#include "topology/graph/paths.h"
#include "topology/xml/xml.h"
#include "transports/cuda/layout.h"

namespace tutti::tools {
namespace {

// A GPU that ranks may share, by its data sheet.
struct Gpu {
  std::string_view name;
  int sm;
  int multiprocessors;
  double memory_bandwidth;  // GB/s
};
constexpr std::array kGpus = {Gpu{"a100", 80, 108, 2039}, Gpu{"h100", 90, 132, 3350}, Gpu{"h200", 90, 132, 4800},
                              Gpu{"b200", 100, 148, 8000}};

std::vector<std::string_view> NamesOfGpus() {
  std::vector<std::string_view> names;
  for (const Gpu& gpu : kGpus) names.push_back(gpu.name);
  return names;
}

Target OneGpu(const TargetOptions& options) {
  const auto gpu =
      std::find_if(kGpus.begin(), kGpus.end(), [&](const Gpu& each) { return each.name == options.one_gpu; });
  if (gpu == kGpus.end()) {
    throw UsageError(UnknownName("GPU", options.one_gpu, NamesOfGpus()));
  }
  if (options.ranks < 1) ThrowUsage("--one-gpu needs --ranks");
  return {cost_model::MachineOfOneGpu(options.ranks, gpu->sm, gpu->memory_bandwidth, {cuda_kernels::kMaxThreads}), true,
          gpu->multiprocessors * static_cast<int>(cuda_kernels::kBlocksPerMultiprocessor)};
}

}  // namespace

void AddTargetOptions(CLI::App& command, TargetOptions& options) {
  options.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  command.add_option("--topo", options.topology, "NCCL topology XML of the host; default: ranks in shared memory");
  command
      .add_option("--one-gpu", options.one_gpu,
                  fmt::format("all ranks are threads that share one GPU: {}", fmt::join(NamesOfGpus(), ", ")))
      ->excludes("--topo");
  command.add_option("--nodes", options.nodes, "number of such hosts; without --topo, they are joined by TCP")
      ->check(CLI::Range(1, 32'000));
  command.add_option("--ranks", options.ranks, "number of ranks in total; default: one for each GPU (or core)")
      ->check(CLI::Range(1, 32'000));
  command
      .add_option(
          "--host", options.host,
          "one host by hwloc's synthetic description, \"package:2 l3:4 core:8 pu:1\"; each rank has a processor")
      ->excludes("--topo")
      ->excludes("--nodes");
  command.add_option("--cores", options.cores, "number of cores that ranks in shared memory have together")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      .add_option("--network", options.network,
                  "bandwidth of each host in Mbit/s in each direction, for several hosts without --topo")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_flag("--one-machine", options.one_machine,
                   "the hosts are namespaces of one machine (scripts/cluster.sh) and share its cores");
  command.add_option("--calibration", options.calibration,
                     "file written by tutti calibrate; none: built-in defaults; empty: the default location");
}

namespace {

Target SyntheticHost(const TargetOptions& options) {
  const topology::System system = detect::DetectHost({.hwloc_synthetic = options.host, .sysfs = "", .nvml = ""});
  const auto cores = topology::ProcessorsOf(system, 0);
  const int ranks = options.ranks > 0 ? options.ranks : static_cast<int>(cores.size());
  const auto costs = tuner::LoadCalibration(options.calibration, static_cast<int>(cores.size())).costs;
  if (const auto domains = topology::DomainsOf(system, 0, topology::OneProcessorEach(system, 0, ranks)))
    return {cost_model::DomainsMachine(costs, cost_model::ArrangeByDomain(*domains)), false};
  return {cost_model::HostMachine(costs, schedule::ArrangeEvenly(ranks, 1)), false};
}

Target HostsOf(const TargetOptions& options) {
  const int ranks = options.ranks > 0 ? options.ranks : options.cores * options.nodes;
  if (ranks < options.nodes) {
    ThrowUsage("{} ranks are fewer than {} nodes", ranks, options.nodes);
  }
  const auto processors = options.one_machine
                              ? cost_model::ShareProcessors(options.cores, options.nodes, ranks, ranks / options.nodes)
                              : cost_model::Processors{options.cores, 1};
  const cost_model::HostCosts costs = tuner::LoadCalibration(options.calibration, processors.of_host).costs;
  const auto where = schedule::ArrangeEvenly(ranks, options.nodes);
  if (options.nodes == 1) return {cost_model::HostMachine(costs, where), false};
  constexpr double kMbitPerGB = 8'000;
  const auto network =
      cost_model::DefaultNetworkCosts(options.network / kMbitPerGB, options.one_machine, processors.crowding);
  return {cost_model::HostMachine(costs, where, network), false};
}

// Every two of the host's first `ranks` GPUs, directly or by switches.
bool JoinedByNvlink(const topology::System& system, std::size_t ranks) {
  auto gpus = system.All(topology::DeviceKind::gpu, 0);
  gpus.resize(ranks);
  return std::ranges::all_of(gpus, [&](int from) {
    const auto paths = topology::PathsFrom(system, from);
    return std::ranges::all_of(gpus, [&](int to) { return paths[to].path_class <= topology::PathClass::NVL; });
  });
}

}  // namespace

Target TargetOf(const TargetOptions& options, bool as_library) {
  if (!options.one_gpu.empty()) return OneGpu(options);
  if (!options.host.empty()) return SyntheticHost(options);
  if (options.topology.empty()) return HostsOf(options);
  if (options.ranks % options.nodes != 0) {
    ThrowUsage("{} ranks are not the same number on each of {} nodes", options.ranks, options.nodes);
  }
  const topology::System system = xml::ReadTopologyFile(options.topology).system;
  topology::CheckSearchable(system);
  const cost_model::Blocks blocks =
      as_library ? cost_model::Blocks{cuda_kernels::kMaxThreads, true} : cost_model::Blocks{};
  auto machine = cost_model::MachineOfSystem(system, options.nodes, options.ranks / options.nodes, blocks);
  const bool joined = JoinedByNvlink(system, machine.ranks_of_fullest_node());
  return {std::move(machine), true, 0, as_library, joined};
}

namespace {

void TakeLibrarySlots(const Target& target, cost_model::TuningContext& tuning) {
  const int on_a_host = static_cast<int>(target.machine.ranks_of_fullest_node());
  const cuda_transport::DeviceLayout layout(on_a_host, tuning.max_channels,
                                            device::ShortSlots(on_a_host, tuning.one_host, target.joined));
  const std::size_t bulk = tuning.one_host ? layout.bulk_capacity()
                                           : cuda_transport::NetworkSlotCapacity(tuning.nranks, layout.bulk_capacity());
  const bool adds = tuning.in_switch && device::WhyNoSwitch(tuning).empty();
  device::TakeSlots(layout, target.joined, bulk, target.blocks > 0, adds, tuning);
}

}  // namespace

cost_model::TuningContext ConditionsOf(const Target& target) {
  cost_model::TuningContext tuning = HostConditions(target.machine.nranks());
  tuning.where = target.machine.rank_layout();
  tuning.one_host = target.machine.one_host();
  tuning.domains = !target.gpus && tuning.one_host && tuning.where.nodes() > 1;
  if (!target.gpus) {
    tuning.threads =
        cost_model::ThreadsFor(target.machine.costs().cores, static_cast<int>(target.machine.ranks_of_fullest_node()));
  }
  if (tuning.domains) tuning.stream_bytes = detect::CacheShareBytes(target.machine.costs().cores);
  if (!target.gpus) return tuning;
  constexpr std::size_t kLongestGpuSlot = 512 * 1024;
  tuning.bulk_capacity = kLongestGpuSlot;
  if (target.blocks > 0) {
    cost_model::FitToGpus(target.blocks, tuning.nranks, true, tuning);
    TakeLibrarySlots(target, tuning);
    tuning.one_launch = true;
    return tuning;
  }
  tuning.in_switch = target.machine.has_teams();
  tuning.max_channels = cost_model::kMostGpuChannels;
  tuning.threads = 0;
  tuning.cma = false;
  if (target.as_library) TakeLibrarySlots(target, tuning);
  return tuning;
}

}  // namespace tutti::tools
