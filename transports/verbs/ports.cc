#include "transports/verbs/ports.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/plain_text.h"

namespace tutti::verbs {
namespace {

constexpr std::size_t kV4Prefix = 12;         // bytes of an address that mark it as IPv4: ::ffff:0:0/96
constexpr std::size_t kLongestPortName = 70;  // IB_DEVICE_NAME_MAX, and a colon and a port

// Smaller is better.
int Preference(const GidFacts& facts) {
  if (facts.kind != GidKind::roce_v2) return 3;
  return IsV4(facts.gid) ? 0 : IsLinkLocal(facts.gid) ? 2 : 1;
}

std::string Listing(const std::vector<PortFacts>& ports) {
  std::string text;
  for (const auto& port : ports) {
    text += fmt::format("{}{}:{} ({}{})", text.empty() ? "" : ", ", port.device, port.port,
                        port.ethernet ? "RoCE, " : "InfiniBand, ", port.active ? "active" : port.state);
  }
  return text.empty() ? "none" : text;
}

std::string Listing(const std::vector<GidFacts>& gids) {
  std::string text;
  for (const auto& facts : gids) {
    text += fmt::format("{}{}: {} {}{}", text.empty() ? "" : ", ", facts.index, NameOf(facts.kind), TextOf(facts.gid),
                        facts.reachable ? "" : " (of another network namespace)");
  }
  return text.empty() ? "none" : text;
}

// The position of a port in the list of names.
std::size_t Place(const net::InterfaceFilter& filter, const PortFacts& port) {
  for (std::size_t i = 0; i < filter.names.size(); ++i) {
    const net::InterfaceFilter one{false, filter.exact, {filter.names[i]}};
    if (AcceptsPort(one, port.device, port.port)) return i;
  }
  return filter.names.size();
}

}  // namespace

std::string_view NameOf(GidKind kind) {
  switch (kind) {
    case GidKind::infiniband: return "InfiniBand";
    case GidKind::roce_v1: return "RoCE v1";
    case GidKind::roce_v2: return "RoCE v2";
  }
  return "something else";
}

std::string PortFacts::Name() const { return fmt::format("{} port {}", device, port); }

bool IsV4(const Gid& gid) {
  constexpr std::array<unsigned char, kV4Prefix> kPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.data(), kPrefix.data(), kPrefix.size()) == 0;
}

bool IsLinkLocal(const Gid& gid) {
  return gid[0] == std::byte{0xfe} && (gid[1] & std::byte{0xc0}) == std::byte{0x80};  // fe80::/10
}

std::string TextOf(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v4 = IsV4(gid);
  inet_ntop(v4 ? AF_INET : AF_INET6, gid.data() + (v4 ? kV4Prefix : 0), text.data(), text.size());
  return text.data();
}

net::InterfaceFilter ParseHcaFilter(std::string_view text) {
  return net::InterfaceFilter::Parse(text, "TUTTI_IB_HCA", kLongestPortName);
}

bool AcceptsPort(const net::InterfaceFilter& filter, std::string_view device, int port) {
  if (filter.names.empty()) return true;
  const net::InterfaceFilter named{false, filter.exact, filter.names};
  return (named.Accepts(device) || named.Accepts(fmt::format("{}:{}", device, port))) != filter.exclude;
}

std::vector<std::size_t> ChoosePorts(const std::vector<PortFacts>& ports, std::string_view hca,
                                     const std::vector<std::string>& nics) {
  const auto filter = ParseHcaFilter(hca);
  const bool by_name = filter.exact && !filter.exclude;  // prefixes only say which devices may be used
  std::vector<std::size_t> chosen;
  const PortFacts* down = nullptr;
  PortFacts fastest;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const auto& port = ports[i];
    if (!AcceptsPort(filter, port.device, port.port)) continue;
    if (!port.active) {
      down = &port;
      continue;
    }
    chosen.push_back(i);
    if (chosen.size() == 1 || port.speed > fastest.speed) fastest = port;
  }
  if (chosen.empty() && down != nullptr) {
    Throw(tuttiInvalidUsage,
          "no RDMA port that matches TUTTI_IB_HCA={} is active: {} is {}; check its cable, `ip link` (RoCE) or the "
          "subnet manager (InfiniBand); this machine has: {}",
          Quoted(hca), down->Name(), down->state, Listing(ports));
  }
  if (chosen.empty()) {
    Throw(tuttiInvalidUsage, "no RDMA port matches TUTTI_IB_HCA={}; this machine has: {}", Quoted(hca), Listing(ports));
  }
  if (by_name) {
    std::ranges::stable_sort(chosen, {}, [&](std::size_t i) { return Place(filter, ports[i]); });
  } else {
    std::erase_if(
        chosen, [&](std::size_t i) { return ports[i].speed < fastest.speed || ports[i].ethernet != fastest.ethernet; });
    const auto place = [&](std::size_t i) { return std::ranges::find(nics, ports[i].device) - nics.begin(); };
    const auto is_near = [&](std::size_t i) { return place(i) != std::ssize(nics); };
    if (std::ranges::any_of(chosen, is_near)) std::erase_if(chosen, std::not_fn(is_near));
    std::ranges::stable_sort(chosen, {}, place);
  }
  chosen.resize(std::min(chosen.size(), kMostRails));
  return chosen;
}

std::size_t ChooseGid(const PortFacts& port, int wanted) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < port.gids.size(); ++i) {
    const auto& facts = port.gids[i];
    if (wanted >= 0) {
      if (facts.index == wanted) return i;
    } else if (!port.ethernet) {
      if (facts.index == 0) return i;
    } else if (facts.reachable && (!best || Preference(facts) < Preference(port.gids[*best]))) {
      best = i;
    }
  }
  if (best) return *best;
  if (wanted >= 0) {
    Throw(tuttiInvalidUsage, "TUTTI_IB_GID_INDEX={}: {} has no address (GID) with this index; it has {}", wanted,
          port.Name(), Listing(port.gids));
  }
  Throw(tuttiInvalidUsage, "{} has no address (GID) that this process can use: does its interface have one? It has {}",
        port.Name(), Listing(port.gids));
}

}  // namespace tutti::verbs
