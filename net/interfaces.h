// Chooses this machine's addresses that other ranks should use: TUTTI_SOCKET_IFNAME and TUTTI_SOCKET_FAMILY.
//
// Thread-safety: pure functions, except LocalInterfaces and Resolve, which ask the system and are safe to call
// anywhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "net/socket.h"

namespace tutti::net {

// The value of TUTTI_SOCKET_IFNAME: "eth,ib" interfaces whose names begin so, "=eth0,eth1" exactly these, "^docker" all
// but those that begin so, "^=lo" all but exactly these. Empty: all.
struct InterfaceFilter {
  bool exclude = false;
  bool exact = false;
  std::vector<std::string> names;

  // Throws tuttiInvalidArgument for lists without a name and for names that no interface can have. `variable`: the
  // setting, where another one has the same form. `longest`: characters of a name.
  static InterfaceFilter Parse(std::string_view text, std::string_view variable = "TUTTI_SOCKET_IFNAME",
                               std::size_t longest = 15);
  bool Accepts(std::string_view interface) const;
};

struct InterfaceAddress {
  std::string interface;
  SocketAddress address;  // port 0

  friend bool operator==(const InterfaceAddress&, const InterfaceAddress&) = default;
};

// Every address of every interface that is up.
std::vector<InterfaceAddress> LocalInterfaces();

// A unique id has room for this many of each family.
inline constexpr std::size_t kMaxAddressesPerFamily = 2;

// Mbit/s, as the system reports; 0 where it does not (loopback, some virtual interfaces).
int SpeedOf(const std::string& interface);
// Whether hardware (or a hypervisor's) is behind the interface; not so for loopback and veths.
bool HasDevice(const std::string& interface);

// At most kMaxAddressesPerFamily of each family, best first: in the order of the list when interfaces are chosen by
// name, else real interfaces before container bridges, and loopback only when there is nothing else. IPv4 before IPv6.
// Link-local addresses are left out: they mean something else on the next machine. `family`: "inet", "inet6" or ""
// (both). Throws tuttiInvalidUsage naming the settings and the available interfaces when none fits.
std::vector<InterfaceAddress> ChooseInterfaces(const std::vector<InterfaceAddress>& interfaces, std::string_view ifname,
                                               std::string_view family);
// The addresses alone.
std::vector<SocketAddress> ChooseAddresses(const std::vector<InterfaceAddress>& interfaces, std::string_view ifname,
                                           std::string_view family);

struct HostPort {
  std::string host;  // name, IPv4, or IPv6 without its brackets
  std::uint16_t port = 0;

  friend bool operator==(const HostPort&, const HostPort&) = default;
};
// "host:port", "10.0.0.1:port", "[v6]:port". Throws tuttiInvalidUsage naming the variable and its value.
HostPort ParseHostPort(std::string_view variable, std::string_view text);
// 1..65535, nothing else in the text. Throws as above.
std::uint16_t ParsePort(std::string_view variable, std::string_view text);

// The addresses of a name or number, at most kMaxAddressesPerFamily of each family, in the system's order of
// preference. Throws tuttiInvalidUsage naming the variable when there are none of this family.
std::vector<SocketAddress> Resolve(std::string_view variable, const HostPort& place, std::string_view family);

}  // namespace tutti::net
