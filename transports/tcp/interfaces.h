// Which of this host's interfaces TCP between hosts uses, and how fast they are together.
//
// Thread-safety: functions that ask the system, safe to call anywhere.
#pragma once

#include <vector>

#include "base/settings.h"
#include "net/interfaces.h"

namespace tutti {

// Those that the settings choose, with one address each where there are several: the families of one interface lead to
// the same wire. Throws as ChooseInterfaces.
std::vector<InterfaceAddress> InterfacesOf(const Settings& settings);

// They together.
struct TcpInterfaces {
  // GB/s, together, each way: TUTTI_SOCKET_SPEED, or what the system says, or 10 Gbit/s each where nobody says.
  double bandwidth = 0;
  // Some have no device behind them, so that the sender's processor carries what it sends to the receiver.
  bool by_processor = false;
};
// Throws as ChooseInterfaces.
TcpInterfaces DescribeTcp(const Settings& settings);

}  // namespace tutti
