#include "topology/graph/capacity.h"

#include <algorithm>
#include <vector>

#include "topology/graph/rails.h"

namespace tutti::topology {
namespace {

double Sum(const System& system, int from, LinkKind kind) {
  double sum = 0;
  for (const Link& link : system.links) sum += link.from == from && link.kind == kind ? link.bandwidth : 0;
  return sum;
}

double NominalSpeed(const Device& nic) { return nic.speed_gbit / 8; }

}  // namespace

double SendCapacity(const System& system, int device) {
  const LinkKind otherwise = system.devices[device].kind == DeviceKind::cpu ? LinkKind::socket : LinkKind::pci;
  const double nvlinks = Sum(system, device, LinkKind::nvlink);
  return nvlinks > 0 ? nvlinks : Sum(system, device, otherwise);
}

double RingCapacity(const System& system, int host) {
  double least = 0;
  for (const int device : RingEnds(system, host)) {
    const double capacity = SendCapacity(system, device);
    least = least > 0 ? std::min(least, capacity) : capacity;
  }
  return least;
}

double PortCapacity(const System& system, int host) {
  double sum = 0;
  for (const int nic : system.All(DeviceKind::nic, host)) sum += NominalSpeed(system.devices[nic]);
  return sum;
}

double ReachablePortCapacity(const System& system, int host) {
  const std::vector<int> ends = RingEnds(system, host);
  double sum = 0;
  for (const int nic : system.All(DeviceKind::nic, host)) {
    const std::vector<Path> paths = PathsFrom(system, nic);
    const std::vector<int> nearest = Nearest(paths, ends);
    if (nearest.empty()) continue;
    sum += std::min(NominalSpeed(system.devices[nic]), paths[nearest.front()].bandwidth);
  }
  return sum;
}

}  // namespace tutti::topology
