#include "selection/cost_model/machine_of_system.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "base/error.h"
#include "selection/cost_model/machine_constants.h"
#include "topology/graph/paths.h"
#include "topology/graph/rails.h"
#include "topology/search/hop_graph.h"
#include "topology/search/ring_search.h"

namespace tutti::cost_model {
namespace {

// One host's part of the system, as resources and routes.
class NodeMaker {
 public:
  NodeMaker(const topology::System& system, const GpuConstants& constants)
      : system_(system), constants_(constants), resource_of_(system.links.size(), -1) {
    for (std::size_t i = 0; i < system.links.size(); ++i) {
      const topology::Link& link = system.links[i];
      if (!IsHere(link.from) && !IsHere(link.to)) continue;
      resource_of_[i] = static_cast<int>(type_.resources.size());
      type_.resources.push_back(
          {system.devices[link.from].name + " -> " + system.devices[link.to].name, link.bandwidth});
    }
  }

  NodeType Make(const std::vector<int>& gpus, bool network, std::optional<bool> direct) {
    if (constants_.in_switch_efficiency > 0 && gpus.size() > 1) AddTeam(gpus);
    const auto nics = topology::NicsOfRanks(system_, 0, gpus);
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      const auto paths = topology::PathsFrom(system_, gpus[i]);
      auto& local = type_.local.emplace_back();
      for (const int other : gpus) local.push_back(LocalRoute(paths[other], gpus[i], other));
      auto& outward = type_.outward.emplace_back();
      auto& inward = type_.inward.emplace_back();
      if (!network) continue;
      if (nics[i].empty()) {
        Throw(tuttiInvalidArgument, "{} has no path to the network; with several nodes every GPU needs a path to a NIC",
              NameOf(gpus[i]));
      }
      for (const int nic : nics[i]) {
        const auto back = topology::PathsFrom(system_, nic);
        const bool reaches = direct.value_or(
            topology::GoesDirect(system_.devices[gpus[i]], system_.devices[nic], paths[nic].path_class));
        const int host = reaches ? kNone : MemoryOf(back);
        outward.push_back(NetworkRoute(By(host, paths, nic), nic, true));
        inward.push_back(NetworkRoute(By(host, back, gpus[i]), nic, false));
      }
    }
    return std::move(type_);
  }

 private:
  static constexpr int kNone = -1;

  // The processor whose memory the NIC, from which these paths go, uses best; kNone if none is known.
  int MemoryOf(const std::vector<topology::Path>& from_nic) const {
    const auto nearest = topology::Nearest(from_nic, system_.All(topology::DeviceKind::cpu, 0));
    return nearest.empty() ? kNone : nearest.front();
  }
  // The way to `to`; by that memory of the host, if there is one.
  topology::Path By(int host, const std::vector<topology::Path>& paths, int to) const {
    if (host == kNone) return paths[to];
    topology::Path path = paths[host];
    const topology::Path rest = topology::PathsFrom(system_, host)[to];
    path.links.insert(path.links.end(), rest.links.begin(), rest.links.end());
    path.bandwidth = std::min(path.bandwidth, rest.bandwidth);
    path.latency += rest.latency;
    path.path_class = std::max(path.path_class, rest.path_class);
    return path;
  }
  bool IsHere(int device) const { return system_.devices[device].host == 0; }
  const std::string& NameOf(int device) const { return system_.devices[device].name; }

  // NVSwitches since NVLink 4 add and multiply data: where every path between two GPUs has two legs, by such a switch.
  void AddTeam(const std::vector<int>& gpus) {
    std::vector<int> up, down;  // links
    double latency = 0;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      const topology::Path path = topology::PathsFrom(system_, gpus[i])[gpus[(i + 1) % gpus.size()]];
      constexpr std::size_t kLegs = 2;
      if (path.links.size() != kLegs) return;
      const topology::Link& leg = system_.links[path.links.front()];
      if (system_.devices[leg.to].kind != topology::DeviceKind::nvswitch) return;
      up.push_back(path.links.front());
      down.push_back(path.links.back());
      latency = std::max(latency, path.latency);
    }
    std::rotate(down.begin(), down.end() - 1, down.end());  // the last leg of path i leads to the next GPU
    const auto route = [&](double us) {
      Route made;
      made.latency.fill(us);
      return made;
    };
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      // A read goes to the memories and comes back.
      Route& sum = type_.sums.emplace_back(route(2 * latency));
      for (const int link : up) sum.resources.push_back(resource_of_[link]);
      sum.resources.push_back(resource_of_[down[i]]);
      Route& multicast = type_.multicasts.emplace_back(route(latency));
      multicast.resources.push_back(resource_of_[up[i]]);
      for (const int link : down) multicast.resources.push_back(resource_of_[link]);
    }
  }

  Route LocalRoute(const topology::Path& path, int from, int to) const {
    if (path.path_class >= topology::PathClass::NET) {
      Throw(tuttiInvalidArgument, "there is no path from {} to {}", NameOf(from), NameOf(to));
    }
    return RouteOver(path, constants_.synchronisation_us);
  }

  // The route includes the NIC's port to the network. The writer's side bears the proxy's cost.
  Route NetworkRoute(const topology::Path& path, int nic, bool outward) const {
    Route route = RouteOver(path, outward ? constants_.proxy_us : std::array<double, ring::kProtocols>{});
    for (std::size_t i = 0; i < system_.links.size(); ++i) {
      const topology::Link& link = system_.links[i];
      if (link.kind != topology::LinkKind::network || (outward ? link.from : link.to) != nic) continue;
      route.resources.insert(outward ? route.resources.end() : route.resources.begin(), resource_of_[i]);
      for (double& latency : route.latency) latency += link.latency;
    }
    route.network = true;
    return route;
  }

  Route RouteOver(const topology::Path& path, const std::array<double, ring::kProtocols>& added_us) const {
    Route route;
    for (const int link : path.links) route.resources.push_back(resource_of_[link]);
    for (std::size_t protocol = 0; protocol < route.latency.size(); ++protocol)
      route.latency[protocol] = path.latency + added_us[protocol];
    return route;
  }

  const topology::System& system_;
  const GpuConstants& constants_;
  std::vector<int> resource_of_;  // by link; -1: of another host
  NodeType type_;
};

Costs CostsOf(const GpuConstants& constants, const Blocks& blocks) {
  Costs costs;
  costs.operation_us = constants.operation_us;
  costs.step_us = constants.step_us;
  costs.channel_skew_us = kGpuChannelSkewUs;
  costs.message_us = kProxyMessageUs;
  costs.executor_bandwidth = {{kAnySize, constants.block_bandwidth * blocks.threads / kNcclBlockThreads}};
  costs.protocol_efficiency = kGpuProtocolEfficiency;
  costs.bulk_between_nodes = blocks.bulk_between_hosts;
  if (constants.in_switch_efficiency > 0) costs.in_switch_efficiency = constants.in_switch_efficiency;
  return costs;
}

// Whether so many rings in the order of the ranks fit side by side into the links.
bool FitByRank(const topology::System& system, const std::vector<int>& gpus, const search::Rings& rings) {
  search::FreeLinks free(system);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const auto path = topology::PathsFrom(system, gpus[i])[gpus[(i + 1) % gpus.size()]];
    for (std::size_t ring = 0; ring < rings.rings.size(); ++ring) {
      if (!free.Take(path.links, rings.bandwidth)) return false;
    }
  }
  return true;
}

// The rings that the host's links carry, as ranks; each begins with rank 0. None where those by rank are as good, or GPUs
// have no rank.
std::vector<std::vector<int>> RingsOnOneHost(const topology::System& system, const std::vector<int>& gpus) {
  if (gpus.size() != system.All(topology::DeviceKind::gpu, 0).size()) return {};
  const search::Rings found = search::SearchRings(system, 0);
  std::vector<std::vector<int>> rings;
  if (FitByRank(system, gpus, found)) return rings;
  for (const auto& [order, nic_in, nic_out, links] : found.rings) {
    auto& ring = rings.emplace_back();
    const auto first = std::ranges::find(order, gpus.front()) - order.begin();
    for (std::size_t i = 0; i < order.size(); ++i) {
      const int gpu = order[(static_cast<std::size_t>(first) + i) % order.size()];
      ring.push_back(static_cast<int>(std::ranges::find(gpus, gpu) - gpus.begin()));
    }
  }
  return rings;
}

}  // namespace

GpuConstants GpuConstantsOf(int sm) {
  GpuConstants constants = kGpuGenerations.front();
  for (const GpuConstants& generation : kGpuGenerations) {
    if (generation.sm <= sm) constants = generation;
  }
  return constants;
}

Machine MachineOfSystem(const topology::System& system, int nodes, const std::vector<int>& gpus, const Blocks& blocks,
                        std::optional<bool> direct) {
  if (gpus.empty()) Throw(tuttiInvalidArgument, "this system has no GPUs");
  if (std::set<int>(gpus.begin(), gpus.end()).size() != gpus.size())
    Throw(tuttiInvalidArgument, "several ranks are on one GPU of a host with several");
  const GpuConstants constants = GpuConstantsOf(system.devices[gpus.front()].sm);
  NodeType type = NodeMaker(system, constants).Make(gpus, nodes > 1, direct);
  schedule::RankLayout rank_layout = schedule::ArrangeEvenly(static_cast<int>(gpus.size()) * nodes, nodes);
  rank_layout.rings = nodes > 1 ? schedule::TurnedRings(rank_layout) : RingsOnOneHost(system, gpus);
  return {{std::move(type)},
          std::vector<int>(static_cast<std::size_t>(nodes), 0),
          std::move(rank_layout),
          CostsOf(constants, blocks)};
}

Machine MachineOfSystem(const topology::System& system, int nodes, int ranks_per_node, const Blocks& blocks) {
  std::vector<int> gpus = system.All(topology::DeviceKind::gpu, 0);
  const auto wanted = ranks_per_node > 0 ? static_cast<std::size_t>(ranks_per_node) : gpus.size();
  if (gpus.empty() || wanted > gpus.size()) {
    Throw(tuttiInvalidArgument, "{} ranks on a node of {} GPUs; at least one GPU, and at most one rank on each", wanted,
          gpus.size());
  }
  std::stable_sort(gpus.begin(), gpus.end(),
                   [&](int a, int b) { return system.devices[a].number < system.devices[b].number; });
  gpus.resize(wanted);
  return MachineOfSystem(system, nodes, gpus, blocks);
}

Machine MachineOfOneGpu(int nranks, int sm, double memory_bandwidth, const Blocks& blocks) {
  const GpuConstants constants = GpuConstantsOf(sm);
  const auto n = static_cast<std::size_t>(nranks);
  // Every byte of a slot is written to the memory and read from it.
  NodeType type;
  type.one_memory = true;
  type.resources = {{"GPU memory", kGpuMemoryApart * memory_bandwidth / 2}};
  const Route through_memory{{0}, constants.synchronisation_us, false};
  type.local.assign(n, std::vector<Route>(n, through_memory));
  type.outward.resize(n);
  type.inward.resize(n);
  return {{std::move(type)}, {0}, schedule::ArrangeEvenly(nranks, 1), CostsOf(constants, blocks)};
}

}  // namespace tutti::cost_model
