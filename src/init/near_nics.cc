#include "src/init/near_nics.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.h"
#include "topology/graph/pci_text.h"
#include "topology/graph/rails.h"

namespace tutti::init {
namespace {

struct RankDevice {
  int device;
  bool is_there;  // the system has the rank's own; else it stands for that
};

// The devices of these ranks. `is_at(rank, device)`: whether the rank is at this one. Ranks that are at none, or at several,
// take in turn those where no rank is; if there are none, all.
template <typename IsAt>
std::vector<RankDevice> DevicesOf(const topology::System& system, const std::vector<int>& devices,
                                  const std::vector<int>& ranks, IsAt&& is_at) {
  if (devices.empty()) return {};
  constexpr int kUnknown = -1;
  std::vector<RankDevice> device_of;
  std::vector<int> left = devices;
  for (const int rank : ranks) {
    const auto here = [&](int device) { return is_at(rank, system.devices[static_cast<std::size_t>(device)]); };
    const auto found = std::ranges::find_if(devices, here);
    device_of.push_back({found != devices.end() ? *found : kUnknown, found != devices.end()});
    std::erase(left, device_of.back().device);
  }
  if (left.empty()) left = devices;
  std::size_t turn = 0;
  for (auto& each : device_of) {
    if (!each.is_there) each.device = left[turn++ % left.size()];
  }
  return device_of;
}

std::vector<int> Numbers(const std::vector<RankDevice>& device_of) {
  std::vector<int> numbers;
  for (const auto& each : device_of) numbers.push_back(each.device);
  return numbers;
}

std::vector<RankDevice> RankGpus(const topology::System& system, int host, const std::vector<int>& ranks,
                                 const std::vector<std::uint64_t>& bus_ids) {
  return DevicesOf(
      system, system.All(topology::DeviceKind::gpu, host), ranks, [&](int rank, const topology::Device& gpu) {
        const auto id = bus_ids[static_cast<std::size_t>(rank)];
        const auto part = [id](int shift, unsigned mask) { return static_cast<unsigned>(id >> shift) & mask; };
        return gpu.bus_id == topology::MakeBusId(part(20, 0xffff'ffff), part(12, 0xff), part(4, 0xff), part(0, 0xf));
      });
}

// `device_of`: of the ranks of this rank's host.
NearNics NicsNear(const Meeting& meeting, const topology::System& system, const std::vector<RankDevice>& device_of) {
  const int host = meeting.hosts.host_of[static_cast<std::size_t>(meeting.rank)];
  const auto all_nics = system.All(topology::DeviceKind::nic, host);
  if (meeting.one_host() || device_of.empty() || all_nics.empty()) return {};
  const auto ranks = meeting.hosts.RanksWith(meeting.rank);
  const auto place = static_cast<std::size_t>(std::ranges::find(ranks, meeting.rank) - ranks.begin());
  const auto nics = topology::NicsOfRanks(system, host, Numbers(device_of));
  const auto& [device, is_there] = device_of[place];
  const auto name = [&](int nic) { return system.devices[static_cast<std::size_t>(nic)].name; };
  NearNics near;
  for (const int nic : nics[place]) near.names.push_back(name(nic));
  if (is_there) {
    const auto paths = topology::PathsFrom(system, device);
    for (const int nic : all_nics) near.distances[name(nic)] = paths[static_cast<std::size_t>(nic)].path_class;
  }
  Log(Subject::init, "rank {}: nearest NICs of {}: {}", meeting.rank,
      system.devices[static_cast<std::size_t>(device)].name, fmt::join(near.names, ", "));
  const auto all_nodes = system.All(topology::DeviceKind::cpu, host);
  if (nics[place].empty() || all_nodes.size() < 2) return near;
  const auto nodes = topology::Nearest(topology::PathsFrom(system, nics[place].front()), all_nodes);
  if (!nodes.empty()) near.memory_node = system.devices[static_cast<std::size_t>(nodes.front())].number;
  return near;
}

}  // namespace

std::vector<int> GpusOfRanks(const topology::System& system, int host, const std::vector<int>& ranks,
                             const std::vector<std::uint64_t>& bus_ids) {
  return Numbers(RankGpus(system, host, ranks, bus_ids));
}

NearNics NicsNearGpus(const Meeting& meeting, const topology::System& system,
                      const std::vector<std::uint64_t>& bus_ids) {
  const int host = meeting.hosts.host_of[static_cast<std::size_t>(meeting.rank)];
  return NicsNear(meeting, system, RankGpus(system, host, meeting.hosts.RanksWith(meeting.rank), bus_ids));
}

NearNics NicsNearProcessors(const Meeting& meeting, const topology::System& system,
                            const std::vector<std::vector<int>>& processors) {
  const int host = meeting.hosts.host_of[static_cast<std::size_t>(meeting.rank)];
  const auto is_at = [&](int rank, const topology::Device& node) {
    return std::ranges::includes(node.cores, processors[static_cast<std::size_t>(rank)]);
  };
  return NicsNear(
      meeting, system,
      DevicesOf(system, system.All(topology::DeviceKind::cpu, host), meeting.hosts.RanksWith(meeting.rank), is_at));
}

}  // namespace tutti::init
