#include "topology/graph/system.h"

#include <algorithm>
#include <array>

namespace tutti::topology {

std::string_view NameOf(DeviceKind kind) {
  static constexpr std::array<std::string_view, 6> kNames = {"CPU", "PCI switch", "GPU", "NVSwitch", "NIC", "network"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view NameOf(LinkKind kind) {
  static constexpr std::array<std::string_view, 4> kNames = {"NVLink", "PCI", "socket", "network"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<int> System::All(DeviceKind kind, int host) const {
  std::vector<int> found;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].kind == kind && (host == -1 || devices[i].host == host)) found.push_back(static_cast<int>(i));
  }
  return found;
}

int System::hosts() const {
  int last = -1;
  for (const auto& device : devices) last = std::max(last, device.host);
  return last + 1;
}

void System::Join(int a, int b, LinkKind kind, double bandwidth, double latency) {
  links.push_back({a, b, kind, bandwidth, latency});
  links.push_back({b, a, kind, bandwidth, latency});
}

}  // namespace tutti::topology
