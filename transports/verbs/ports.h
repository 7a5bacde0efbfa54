// Which RDMA ports a rank uses, and by which of their addresses: TUTTI_IB_HCA and TUTTI_IB_GID_INDEX. The available
// ports come as plain facts, so that choosing needs no device.
//
// Thread-safety: pure functions and value types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/interfaces.h"
#include "transports/verbs/messages.h"

namespace tutti::verbs {

enum class GidKind : std::uint8_t { infiniband, roce_v1, roce_v2 };
std::string_view NameOf(GidKind kind);  // "RoCE v2"

struct GidFacts {
  int index = 0;
  GidKind kind = GidKind::roce_v2;
  Gid gid = {};
  bool reachable = true;  // its network interface is one of this process's network namespace
};

struct PortFacts {
  std::string device;  // "mlx5_0"
  int port = 1;
  bool ethernet = false;  // RoCE
  bool active = false;
  std::string state;  // in words, where it is not active
  double speed = 0;   // Gbit/s, about
  std::vector<GidFacts> gids;

  std::string Name() const;  // "mlx5_0 port 1"
};

// "10.0.0.1", "fe80::1".
std::string TextOf(const Gid& gid);
bool IsV4(const Gid& gid);
bool IsLinkLocal(const Gid& gid);

// TUTTI_IB_HCA's form is TUTTI_SOCKET_IFNAME's, with names of devices ("mlx5_0") or of their ports ("mlx5_0:1").
// Throws tuttiInvalidArgument.
net::InterfaceFilter ParseHcaFilter(std::string_view text);
bool AcceptsPort(const net::InterfaceFilter& filter, std::string_view device, int port);

// At most kMostRails indices of active ones among `ports`. If `hca` lists exact names, those ports, in the order of the
// list; otherwise those that are as fast as the fastest, of one kind of link; of these, the ones of `nics` in that
// list's order (devices' names, nearest first), if there are any. Throws tuttiInvalidUsage listing what there is when none
// fits.
std::vector<std::size_t> ChoosePorts(const std::vector<PortFacts>& ports, std::string_view hca,
                                     const std::vector<std::string>& nics = {});

// An index into port.gids. `wanted`: TUTTI_IB_GID_INDEX. On Ethernet RoCE v2 over IPv4 comes first, then v2 over global
// IPv6, over link-local IPv6, and RoCE v1. Throws tuttiInvalidUsage listing the addresses when none fits.
std::size_t ChooseGid(const PortFacts& port, int wanted);

}  // namespace tutti::verbs
