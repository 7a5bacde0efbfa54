#include "topology/xml/fuse.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "topology/xml/xml.h"

namespace tutti::xml {
namespace {

constexpr int kNone = -1;  // no host, or no device

// Appends a part's devices and links, without its network, which becomes `network` (kNone: none yet).
void Append(topology::System& whole, const topology::System& part, int& network) {
  const int first_host = whole.hosts();
  std::vector<int> place;  // by the part's device
  for (const topology::Device& device : part.devices) {
    if (device.kind == topology::DeviceKind::network && network != kNone) {
      place.push_back(network);
      continue;
    }
    place.push_back(static_cast<int>(whole.devices.size()));
    if (device.kind == topology::DeviceKind::network) network = place.back();
    whole.devices.push_back(device);
    if (device.host != kNone) whole.devices.back().host += first_host;
  }
  for (topology::Link link : part.links) {
    link.from = place[link.from];
    link.to = place[link.to];
    whole.links.push_back(link);
  }
}

}  // namespace

std::string Serialize(const topology::System& host) { return WriteTopology(host); }

topology::System Deserialize(std::string_view bytes, const std::string& sender) {
  topology::System system = ParseTopology(bytes, sender).system;
  if (system.hosts() != 1) Throw(tuttiInvalidArgument, "{}: sent {} hosts as one", sender, system.hosts());
  return system;
}

topology::System Fuse(std::span<const topology::System> parts) {
  topology::System whole;
  int network = kNone;
  for (const topology::System& part : parts) Append(whole, part, network);
  return whole;
}

topology::System Replicate(const topology::System& system, int hosts) {
  const auto ranks = std::count_if(system.devices.begin(), system.devices.end(),
                                   [](const topology::Device& d) { return d.rank >= 0; });
  std::vector<topology::System> copies(hosts, system);
  for (int copy = 0; copy < hosts; ++copy) {
    for (topology::Device& device : copies[copy].devices) {
      if (device.rank >= 0) device.rank += copy * static_cast<int>(ranks);
    }
  }
  return Fuse(copies);
}

std::vector<int> PlaceRanks(topology::System& system) {
  std::vector<int> gpus = system.All(topology::DeviceKind::gpu);
  std::sort(gpus.begin(), gpus.end(), [&](int a, int b) { return system.devices[a].rank < system.devices[b].rank; });
  bool complete = true;
  for (std::size_t i = 0; i < gpus.size(); ++i)
    complete = complete && system.devices[gpus[i]].rank == static_cast<int>(i);
  if (complete) return gpus;
  std::sort(gpus.begin(), gpus.end(), [&](int a, int b) {
    const auto key = [](const topology::Device& gpu) {
      return std::tuple(gpu.host, gpu.rank < 0, gpu.rank, gpu.number);
    };
    return std::tuple(key(system.devices[a]), a) < std::tuple(key(system.devices[b]), b);
  });
  for (std::size_t i = 0; i < gpus.size(); ++i) system.devices[gpus[i]].rank = static_cast<int>(i);
  return gpus;
}

}  // namespace tutti::xml
