#include "topology/graph/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "topology/graph/link_constants.h"

namespace tutti::topology {
namespace {

double BandwidthOf(const PciSlot& slot) { return PciBandwidth(slot.speed_gts, slot.width); }

// Removes dead ends, and bridges with one branch.
void Prune(std::vector<PciDescription>& places) {
  std::vector<PciDescription> kept;
  for (auto& place : places) {
    Prune(place.children);
    if (place.is_end()) {
      kept.push_back(std::move(place));
    } else if (place.children.size() == 1) {
      auto& only = place.children.front();
      if (BandwidthOf(place.slot) < BandwidthOf(only.slot)) {
        only.slot.speed_gts = place.slot.speed_gts;
        only.slot.width = place.slot.width;
      }
      kept.push_back(std::move(only));
    } else if (!place.children.empty()) {
      kept.push_back(std::move(place));
    }
  }
  places = std::move(kept);
}

// Numbers the things that have no number: the smallest free numbers, in the given order.
template <typename Thing>
void Number(const std::vector<Thing*>& things) {
  std::set<int> taken;
  for (const Thing* thing : things) taken.insert(thing->number);
  int next = 0;
  for (Thing* thing : things) {
    if (thing->number != kUnknown) continue;
    while (taken.contains(next)) ++next;
    thing->number = next++;
  }
}

void NumberAll(HostDescription& host) {
  std::vector<PciDescription*> places;
  ForEachPlaceOf(host, [&](PciDescription& place) { places.push_back(&place); });
  std::stable_sort(places.begin(), places.end(), [](const auto* a, const auto* b) { return a->bus_id < b->bus_id; });
  std::vector<GpuDescription*> gpus;
  std::vector<PortDescription*> ports;
  for (auto* place : places) {
    if (place->gpu) gpus.push_back(&*place->gpu);
    for (auto& port : place->ports) ports.push_back(&port);
  }
  Number(gpus);
  Number(ports);
}

class Assembly {
 public:
  Assembly(System& system, HostDescription& host, int number) : system_(system), host_(host), number_(number) {}

  void AddDevices() {
    for (auto& cpu : host_.cpus) {
      const int index = AddCpu(cpu);
      for (auto& place : cpu.devices) AddPlace(place, index, index);
    }
    JoinSockets();
    JoinNvlinks();
  }

  // Pairs of a port's device and its latency, to be joined with the network.
  const std::vector<std::pair<int, double>>& ports() const { return ports_; }

 private:
  struct Gpu {
    int index = 0;
    int cpu = 0;
    const GpuDescription* description = nullptr;
  };
  using Pair = std::pair<int, int>;  // devices, the smaller index first

  int Add(Device device) {
    device.host = number_;
    system_.devices.push_back(std::move(device));
    return static_cast<int>(system_.devices.size()) - 1;
  }

  int AddCpu(const CpuDescription& cpu) {
    cpus_.push_back(Add({.kind = DeviceKind::cpu,
                         .number = cpu.numa,
                         .name = fmt::format("NUMA{}", cpu.numa),
                         .rank = cpu.rank,
                         .arch = cpu.arch,
                         .vendor = cpu.vendor,
                         .family = cpu.family,
                         .model = cpu.model,
                         .package = cpu.package,
                         .cores = cpu.cores,
                         .caches = cpu.caches}));
    return cpus_.back();
  }

  // A card's ports share its slot evenly, because the graph has no vertex for the card.
  void JoinSlot(int device, int parent, const PciDescription& place, std::size_t sharers) {
    const double whole = place.bus_id.empty() ? kInsideCpuBandwidth : BandwidthOf(place.slot);
    system_.Join(parent, device, LinkKind::pci, RoundedBandwidth(whole / static_cast<double>(sharers)), kPciLatency);
  }

  void AddPlace(const PciDescription& place, int parent, int cpu) {
    if (!place.is_end()) {
      const int index = Add({.kind = DeviceKind::pci_switch,
                             .name = "switch " + place.bus_id,
                             .bus_id = place.bus_id,
                             .pci = place.slot});
      JoinSlot(index, parent, place, 1);
      NoteNarrow(place);
      for (const auto& child : place.children) AddPlace(child, index, cpu);
      return;
    }
    if (place.gpu) {
      const int index = Add({.kind = DeviceKind::gpu,
                             .number = place.gpu->number,
                             .name = fmt::format("GPU{}", place.gpu->number),
                             .bus_id = place.bus_id,
                             .rank = place.gpu->rank,
                             .sm = place.gpu->sm,
                             .gdr = place.gpu->gdr.value_or(false),
                             .pci = place.slot});
      JoinSlot(index, parent, place, 1);
      gpus_.push_back({index, cpu, &*place.gpu});
      if (!place.bus_id.empty()) gpu_at_[place.bus_id] = index;
    }
    for (const auto& port : place.ports) {
      const int index = Add({.kind = DeviceKind::nic,
                             .number = port.number,
                             .name = port.name.empty() ? fmt::format("net{}", port.number) : port.name,
                             .bus_id = place.bus_id,
                             .gdr = port.gdr.value_or(false),
                             .speed_gbit = port.speed_gbit,
                             .port = std::max(port.port, 0),
                             .guid = port.guid,
                             .pci = place.slot});
      JoinSlot(index, parent, place, place.ports.size());
      ports_.emplace_back(index, port.latency);
    }
  }

  // The narrow link is believed all the same: some switches are built so, others report a link that idles or is only
  // for management.
  void NoteNarrow(const PciDescription& bridge) {
    const bool narrow = std::any_of(bridge.children.begin(), bridge.children.end(), [&](const PciDescription& child) {
      return BandwidthOf(child.slot) > BandwidthOf(bridge.slot);
    });
    if (!narrow) return;
    host_.notes.push_back(fmt::format("switch {}: its link to the CPU carries less ({} GB/s) than a device below it",
                                      bridge.bus_id, BandwidthOf(bridge.slot)));
  }

  // The description does not say which nodes share a socket, so every node is joined with every other.
  void JoinSockets() {
    for (std::size_t i = 0; i < cpus_.size(); ++i) {
      for (std::size_t j = i + 1; j < cpus_.size(); ++j) {
        const auto bandwidth = [this](int index) {
          const Device& cpu = system_.devices[index];
          return SocketBandwidth(cpu.arch, cpu.vendor, cpu.family, cpu.model);
        };
        system_.Join(cpus_[i], cpus_[j], LinkKind::socket, std::min(bandwidth(cpus_[i]), bandwidth(cpus_[j])),
                     kSocketLatency);
      }
    }
  }

  int Nvswitch() {
    if (nvswitch_ == kUnknown) nvswitch_ = Add({.kind = DeviceKind::nvswitch, .name = "NVSwitch"});
    return nvswitch_;
  }

  void JoinNvlinks() {
    std::map<Pair, std::array<double, 2>> told;  // GB/s that the first and the second of the pair report
    for (const Gpu& gpu : gpus_) {
      if (!gpu.description->nvlinks) continue;
      for (const auto& link : *gpu.description->nvlinks) {
        const int other = OtherEnd(gpu, link);
        if (other == kUnknown) continue;
        const double each =
            link.bandwidth != 0 ? link.bandwidth * link.count : NvlinkBandwidth(SlowerSm(gpu.index, other), link.count);
        told[std::minmax(gpu.index, other)][gpu.index < other ? 0 : 1] += each;
      }
    }
    for (const auto& [pair, bandwidths] : told) Join(pair, bandwidths);
  }

  int SlowerSm(int gpu, int other) const {
    const int sm = system_.devices[gpu].sm;
    const int other_sm = system_.devices[other].sm;
    return other_sm == 0 ? sm : std::min(sm, other_sm);
  }

  int OtherEnd(const Gpu& gpu, const NvlinkDescription& link) {
    if (link.count == 0) return kUnknown;
    if (link.end == NvlinkEnd::cpu) return gpu.cpu;
    if (link.end == NvlinkEnd::nvswitch) return Nvswitch();
    const std::string& name = system_.devices[gpu.index].name;
    const auto found = gpu_at_.find(link.bus_id);
    if (found == gpu_at_.end()) {
      host_.notes.push_back(
          fmt::format("{}: {} NVLinks to {}, which is not a GPU of this host: ignored", name, link.count, link.bus_id));
      return kUnknown;
    }
    if (found->second == gpu.index) {
      host_.notes.push_back(fmt::format("{}: {} NVLinks to itself: ignored", name, link.count));
      return kUnknown;
    }
    return found->second;
  }

  void Join(const Pair& pair, const std::array<double, 2>& told) {
    const Device& a = system_.devices[pair.first];
    const Device& b = system_.devices[pair.second];
    const auto [low, high] = std::minmax(told[0], told[1]);
    const bool both_are_gpus = a.kind == DeviceKind::gpu && b.kind == DeviceKind::gpu;
    if (both_are_gpus && low != high) {
      host_.notes.push_back(
          fmt::format("{} and {} disagree about the NVLinks between them ({} and {} GB/s): the {} used", a.name, b.name,
                      told[0], told[1], low == 0 ? "nonzero value is" : "smaller value is"));
    }
    const bool leg = a.kind == DeviceKind::nvswitch || b.kind == DeviceKind::nvswitch;
    system_.Join(pair.first, pair.second, LinkKind::nvlink, RoundedBandwidth(low == 0 ? high : low),
                 leg ? NvlinkToSwitchLatency(std::max(a.sm, b.sm)) : kNvlinkLatency);
  }

  System& system_;
  HostDescription& host_;
  int number_;
  int nvswitch_ = kUnknown;
  std::vector<int> cpus_;
  std::vector<Gpu> gpus_;
  std::map<std::string, int> gpu_at_;  // by bus id
  std::vector<std::pair<int, double>> ports_;
};

double LatencyOfLeg(double from_port_to_port, const PciSlot& slot) {
  if (from_port_to_port > 0) return from_port_to_port / 2;
  return slot.device_class == kClassInfiniband ? kInfinibandLatency : kEthernetLatency;
}

}  // namespace

System Assemble(std::vector<HostDescription>& hosts) {
  System system;
  std::vector<std::pair<int, double>> ports;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (auto& cpu : hosts[i].cpus) Prune(cpu.devices);
    NumberAll(hosts[i]);
    Assembly assembly(system, hosts[i], static_cast<int>(i));
    assembly.AddDevices();
    ports.insert(ports.end(), assembly.ports().begin(), assembly.ports().end());
  }
  if (ports.empty()) return system;
  const int network = static_cast<int>(system.devices.size());
  system.devices.push_back({.kind = DeviceKind::network, .host = -1, .name = "network"});
  for (const auto& [port, latency] : ports) {
    const Device& nic = system.devices[port];
    system.Join(port, network, LinkKind::network, NetworkBandwidth(nic.speed_gbit), LatencyOfLeg(latency, nic.pci));
  }
  return system;
}

}  // namespace tutti::topology
