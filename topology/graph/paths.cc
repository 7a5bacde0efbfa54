#include "topology/graph/paths.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <set>

#include "base/error.h"

namespace tutti::topology {
namespace {

constexpr int kNone = -1;

// The limit on the walks from all devices over all links, once for each bandwidth. The later work grows with the
// bandwidths, too. At the limit it takes a second, rings and trees included. 72 GPUs with as many NICs below switches
// need a million.
constexpr double kMostPathWork = 6e6;
// The search for rings and trees grows with the cube of the number of ends: at this limit, half a second.
constexpr std::size_t kMostEnds = 256;

// The search behind PathsFrom. There are few bandwidths: for each, from the widest down, a breadth-first walk over the
// links that have at least as much reaches the devices without a wider path, over as few links as possible.
class Search {
 public:
  Search(const System& system, int from)
      : system_(system), from_(from), leaving_(system.devices.size()), paths_(system.devices.size()) {
    std::vector<int> order(system.links.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      const Link& x = system.links[a];
      const Link& y = system.links[b];
      return x.to != y.to ? x.to < y.to : x.bandwidth != y.bandwidth ? x.bandwidth > y.bandwidth : a < b;
    });
    for (const int link : order) {
      leaving_[system.links[link].from].push_back(link);
      bandwidths_.insert(system.links[link].bandwidth);
    }
  }

  std::vector<Path> Run() {
    paths_[from_] = {{}, std::numeric_limits<double>::infinity(), 0, PathClass::LOC};
    // No path between two devices of a host leaves the host while there is another way.
    for (const bool by_network : {false, true}) {
      for (const double bandwidth : bandwidths_) Walk(bandwidth, by_network);
    }
    PassOnNvlink();
    return std::move(paths_);
  }

 private:
  const Device& At(int device) const { return system_.devices[device]; }

  bool MayPass(int device, bool by_network) const {
    switch (At(device).kind) {
      case DeviceKind::gpu: return false;
      case DeviceKind::network: return by_network;
      default: return true;
    }
  }

  void Walk(double at_least, bool by_network) {
    std::vector<int> arrived_by(system_.devices.size(), kNone);
    std::vector<int> queue = {from_};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      const int here = queue[i];
      if (here != from_ && !MayPass(here, by_network)) continue;
      for (const int link : leaving_[here]) {
        const int next = system_.links[link].to;
        if (system_.links[link].bandwidth < at_least || next == from_ || arrived_by[next] != kNone) continue;
        arrived_by[next] = link;
        queue.push_back(next);
        if (paths_[next].path_class == PathClass::DIS) paths_[next] = Trace(arrived_by, next);
      }
    }
  }

  Path Trace(const std::vector<int>& arrived_by, int to) const {
    std::vector<int> links;
    for (int at = to; at != from_; at = system_.links[links.back()].from) links.push_back(arrived_by[at]);
    std::reverse(links.begin(), links.end());
    return Along(std::move(links));
  }

  Path Along(std::vector<int> links) const {
    Path path{std::move(links), std::numeric_limits<double>::infinity(), 0, PathClass::LOC};
    for (const int link : path.links) {
      path.bandwidth = std::min(path.bandwidth, system_.links[link].bandwidth);
      path.latency += system_.links[link].latency;
    }
    path.path_class = ClassOf(path.links);
    return path;
  }

  PathClass ClassOf(const std::vector<int>& links) const {
    int switches = 0;
    bool network = false;
    bool socket = false;
    bool cpu = At(from_).kind == DeviceKind::cpu;
    bool only_nvlink = true;
    bool by_gpu = false;
    for (std::size_t i = 0; i < links.size(); ++i) {
      const Link& link = system_.links[links[i]];
      const DeviceKind arrived = At(link.to).kind;
      network = network || link.kind == LinkKind::network;
      socket = socket || link.kind == LinkKind::socket;
      only_nvlink = only_nvlink && link.kind == LinkKind::nvlink;
      cpu = cpu || arrived == DeviceKind::cpu;
      by_gpu = by_gpu || (arrived == DeviceKind::gpu && i + 1 < links.size());
      switches += arrived == DeviceKind::pci_switch ? 1 : 0;
    }
    if (network) return PathClass::NET;
    if (socket) return PathClass::SYS;
    if (only_nvlink) return by_gpu ? PathClass::NVB : PathClass::NVL;
    if (cpu) return PathClass::PHB;
    return switches <= 1 ? PathClass::PIX : PathClass::PXB;
  }

  // Reaches GPUs that the start has no NVLink to by way of a GPU that has NVLinks to both.
  void PassOnNvlink() {
    if (At(from_).kind != DeviceKind::gpu) return;
    for (const int first : leaving_[from_]) {
      const int between = system_.links[first].to;
      if (system_.links[first].kind != LinkKind::nvlink || At(between).kind != DeviceKind::gpu) continue;
      for (const int second : leaving_[between]) {
        const int to = system_.links[second].to;
        if (system_.links[second].kind != LinkKind::nvlink || At(to).kind != DeviceKind::gpu || to == from_) continue;
        if (paths_[to].path_class == PathClass::NVL) continue;
        Path path = Along({first, second});
        if (path.bandwidth > paths_[to].bandwidth) paths_[to] = std::move(path);
      }
    }
  }

  const System& system_;
  int from_;
  std::vector<std::vector<int>> leaving_;  // by device: links, by the device they lead to, the wider first
  std::set<double, std::greater<>> bandwidths_;
  std::vector<Path> paths_;
};

}  // namespace

std::string_view NameOf(PathClass path_class) {
  static constexpr std::array<std::string_view, 9> kNames = {"LOC", "NVL", "NVB", "PIX", "PXB",
                                                             "PHB", "SYS", "NET", "DIS"};
  return kNames[static_cast<std::size_t>(path_class)];
}

void CheckSearchable(const System& system) {
  std::set<double> bandwidths;
  for (const Link& link : system.links) bandwidths.insert(link.bandwidth);
  if (const auto gpus = system.All(DeviceKind::gpu).size(); gpus > kMostEnds) {
    Throw(tuttiInvalidArgument, "{} GPUs are too many for the ring search; the limit is {}", gpus, kMostEnds);
  }
  const auto of = [](const auto& container) { return static_cast<double>(container.size()); };
  const double work = of(system.devices) * (of(system.devices) + of(system.links)) * of(bandwidths);
  if (work <= kMostPathWork) return;
  Throw(tuttiInvalidArgument,
        "{} devices with {} links of {} different bandwidths are too many for the path search: their product is "
        "{:.2g}, and the limit is {:.2g}",
        system.devices.size(), system.links.size(), bandwidths.size(), work, kMostPathWork);
}

std::vector<Path> PathsFrom(const System& system, int from) { return Search(system, from).Run(); }

}  // namespace tutti::topology
