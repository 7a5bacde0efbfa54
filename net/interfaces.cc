#include "net/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <memory>

#include "base/error.h"
#include "base/list_items.h"
#include "base/plain_text.h"

namespace tutti::net {
namespace {

constexpr std::string_view kIfname = "TUTTI_SOCKET_IFNAME";
constexpr std::size_t kLongestHost = 253;  // RFC 1035

bool FamilyFits(std::string_view family, const SocketAddress& address) {
  return family.empty() || (family == "inet6") == address.v6;
}

// Bridges of container engines and hypervisors carry the same addresses on every host.
bool IsBridge(std::string_view interface) {
  constexpr std::array<std::string_view, 7> kPrefixes = {"docker", "br-", "virbr", "veth", "cni", "lxc", "podman"};
  return std::ranges::any_of(kPrefixes, [&](auto prefix) { return interface.starts_with(prefix); });
}

bool NameFits(const InterfaceFilter& filter, std::string_view name, std::string_view interface) {
  return filter.exact ? interface == name : interface.starts_with(name);
}

// Smaller is better.
std::size_t Preference(const InterfaceFilter& filter, const InterfaceAddress& candidate) {
  if (!filter.exclude && !filter.names.empty()) {
    const auto found = std::ranges::find_if(
        filter.names, [&](const auto& name) { return NameFits(filter, name, candidate.interface); });
    return static_cast<std::size_t>(found - filter.names.begin());
  }
  if (candidate.address.IsLoopback()) return 2;
  return IsBridge(candidate.interface) ? 1 : 0;
}

const SocketAddress& AddressOf(const SocketAddress& address) { return address; }
const SocketAddress& AddressOf(const InterfaceAddress& candidate) { return candidate.address; }

template <typename Address>
void KeepFewOfEachFamily(std::vector<Address>& addresses) {
  std::array<std::size_t, 2> kept{};
  std::erase_if(addresses,
                [&](const auto& each) { return ++kept[AddressOf(each).v6 ? 1 : 0] > kMaxAddressesPerFamily; });
}

}  // namespace

InterfaceFilter InterfaceFilter::Parse(std::string_view text, std::string_view variable, std::size_t longest) {
  static_assert(IFNAMSIZ == 16, "the default of `longest` is the system's limit");
  InterfaceFilter filter;
  const auto refuse = [&, whole = text](std::string_view why) {
    Throw(tuttiInvalidArgument,
          "{}={} is not allowed: {} (it takes a comma-separated list of interface name prefixes; \"=\" in front "
          "means "
          "exact names, \"^\" means all but these)",
          variable, Quoted(whole), why);
  };
  if (text.empty()) return filter;
  if (text.starts_with('^')) {
    filter.exclude = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('=')) {
    filter.exact = true;
    text.remove_prefix(1);
  }
  while (!text.empty()) {
    const auto item = TakeItem(text);
    if (item.empty()) continue;
    if (item.size() > longest) refuse(fmt::format("an interface name has at most {} characters", longest));
    if (item.find_first_of("/ \t\n=^") != std::string_view::npos || !IsPrintable(item)) {
      refuse("an interface name cannot contain one of its characters");
    }
    filter.names.emplace_back(item);
  }
  if (filter.names.empty()) refuse("it names no interface");
  return filter;
}

bool InterfaceFilter::Accepts(std::string_view interface) const {
  if (names.empty()) return true;
  const bool named = std::ranges::any_of(names, [&](const auto& name) { return NameFits(*this, name, interface); });
  return named != exclude;
}

std::vector<InterfaceAddress> LocalInterfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) ThrowErrno("cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<InterfaceAddress> interfaces;
  for (const auto* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const auto address = SocketAddress::From(entry->ifa_addr);
    if (address && (entry->ifa_flags & IFF_UP) != 0) interfaces.push_back({entry->ifa_name, *address});
  }
  return interfaces;
}

int SpeedOf(const std::string& interface) {
  int speed = 0;
  std::ifstream("/sys/class/net/" + interface + "/speed") >> speed;
  return std::max(speed, 0);  // -1: unknown; 0: could not be read
}

bool HasDevice(const std::string& interface) {
  return ::access(("/sys/class/net/" + interface + "/device").c_str(), F_OK) == 0;
}

std::vector<InterfaceAddress> ChooseInterfaces(const std::vector<InterfaceAddress>& interfaces, std::string_view ifname,
                                               std::string_view family) {
  const auto filter = InterfaceFilter::Parse(ifname);
  const auto place = [&](const auto& candidate) {
    return std::pair(Preference(filter, candidate), candidate.address.v6);
  };
  std::vector<InterfaceAddress> fitting;
  for (const auto& candidate : interfaces) {
    if (filter.Accepts(candidate.interface) && FamilyFits(family, candidate.address) &&
        !candidate.address.IsLinkLocal() && !candidate.address.IsWildcard()) {
      fitting.insert(std::ranges::upper_bound(fitting, place(candidate), {}, place), candidate);
    }
  }
  const bool chosen_by_name = !filter.exclude && !filter.names.empty();
  if (!chosen_by_name && !fitting.empty() && !fitting.front().address.IsLoopback()) {
    std::erase_if(fitting, [](const auto& candidate) { return candidate.address.IsLoopback(); });
  }
  if (fitting.empty()) {
    std::string present;
    for (const auto& candidate : interfaces) {
      present += fmt::format("{}{} {}", present.empty() ? "" : ", ", candidate.interface, candidate.address.IpText());
    }
    Throw(tuttiInvalidUsage, "no network address matches {}={} and TUTTI_SOCKET_FAMILY=\"{}\"; this machine has: {}",
          kIfname, Quoted(ifname), family, present.empty() ? "none" : present);
  }
  KeepFewOfEachFamily(fitting);
  return fitting;
}

std::vector<SocketAddress> ChooseAddresses(const std::vector<InterfaceAddress>& interfaces, std::string_view ifname,
                                           std::string_view family) {
  std::vector<SocketAddress> addresses;
  for (const auto& chosen : ChooseInterfaces(interfaces, ifname, family)) addresses.push_back(chosen.address);
  return addresses;
}

std::uint16_t ParsePort(std::string_view variable, std::string_view text) {
  unsigned port = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (status != std::errc() || end != text.data() + text.size() || port == 0 || port > 65535) {
    Throw(tuttiInvalidUsage, "{}: {} is not a port; it takes a number from 1 to 65535", variable, Quoted(text));
  }
  return static_cast<std::uint16_t>(port);
}

HostPort ParseHostPort(std::string_view variable, std::string_view text) {
  const auto refuse = [&] {
    Throw(tuttiInvalidUsage,
          "{}={} is not allowed: it takes host:port, e.g. node1:29500, 10.0.0.1:29500 or [::1]:29500", variable,
          Quoted(text));
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) refuse();
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) refuse();
    host = host.substr(1, host.size() - 2);
    if (host.find(':') == std::string_view::npos) refuse();
  } else if (host.find(':') != std::string_view::npos) {
    refuse();  // where would the address end and the port begin?
  }
  if (host.empty() || host.size() > kLongestHost || host.find_first_of(std::string_view("[] \t\n\0", 6)) != host.npos) {
    refuse();
  }
  return {std::string(host), ParsePort(variable, text.substr(colon + 1))};
}

std::vector<SocketAddress> Resolve(std::string_view variable, const HostPort& place, std::string_view family) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_family = family == "inet6" ? AF_INET6 : family == "inet" ? AF_INET : AF_UNSPEC;
  addrinfo* list = nullptr;
  const int status = getaddrinfo(place.host.c_str(), nullptr, &hints, &list);
  if (status != 0) {
    Throw(tuttiInvalidUsage, "{}: cannot resolve the host {} to an {}address: {}", variable, Quoted(place.host),
          family == "inet6"  ? "IPv6 "
          : family == "inet" ? "IPv4 "
                             : "",
          gai_strerror(status));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const auto* entry = list; entry != nullptr; entry = entry->ai_next) {
    auto address = SocketAddress::From(entry->ai_addr);
    if (!address) continue;
    address->port = place.port;
    if (std::ranges::find(addresses, *address) == addresses.end()) addresses.push_back(*address);
  }
  KeepFewOfEachFamily(addresses);
  if (addresses.empty()) {
    Throw(tuttiInvalidUsage, "{}: the host {} has no IPv4 or IPv6 address", variable, Quoted(place.host));
  }
  return addresses;
}

}  // namespace tutti::net
