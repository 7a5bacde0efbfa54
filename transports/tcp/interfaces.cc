#include "transports/tcp/interfaces.h"

#include <algorithm>

namespace tutti::tcp {

std::vector<net::InterfaceAddress> InterfacesOf(const Settings& settings) {
  auto chosen = net::ChooseInterfaces(net::LocalInterfaces(), settings.socket_ifname, settings.socket_family);
  const bool any_v4 = std::ranges::any_of(chosen, [](const auto& each) { return !each.address.v6; });
  if (any_v4) std::erase_if(chosen, [](const auto& each) { return each.address.v6; });
  return chosen;
}

TcpInterfaces DescribeTcp(const Settings& settings) {
  constexpr int kUnknownSpeed = 10'000;  // Mbit/s
  constexpr double kMbitPerGB = 8'000;
  TcpInterfaces all;
  for (const auto& interface : InterfacesOf(settings)) {
    const int speed = settings.socket_speed != 0 ? settings.socket_speed : net::SpeedOf(interface.interface);
    all.bandwidth += (speed != 0 ? speed : kUnknownSpeed) / kMbitPerGB;
    all.by_processor = all.by_processor || !net::HasDevice(interface.interface);
  }
  return all;
}

}  // namespace tutti::tcp
