// Which of this host's interfaces TCP between hosts uses, and how fast they are together.
//
// Thread-safety: functions that ask the system, safe to call anywhere.
#pragma once

#include <vector>

#include "base/settings/settings.h"
#include "net/interfaces.h"

namespace tutti::tcp {

// The interfaces that the settings choose; if there are several, with one address each, because the families of one
// interface lead to the same wire. Throws as ChooseInterfaces.
std::vector<net::InterfaceAddress> InterfacesOf(const Settings& settings);

// Their combined properties.
struct TcpInterfaces {
  // GB/s, together, each way: TUTTI_SOCKET_SPEED, or the system's figure, or 10 Gbit/s each where there is neither.
  double bandwidth = 0;
  // Some have no device behind them, so that the sender's processor carries what it sends to the receiver.
  bool by_processor = false;
};
// Throws as ChooseInterfaces.
TcpInterfaces DescribeTcp(const Settings& settings);

}  // namespace tutti::tcp
