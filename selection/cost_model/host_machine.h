// The machine model for ranks that are processes on hosts and share memory, and the source of its constants.
//
// Thread-safety: pure functions, but for the file.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "base/files/json.h"
#include "selection/cost_model/machine.h"
#include "topology/graph/domains.h"

namespace tutti::cost_model {

// The network between hosts, for a rank that moves its own slots.
struct NetworkCosts {
  double bandwidth;                              // GB/s of a host's interfaces together, each way
  std::array<double, ring::kProtocols> latency;  // us from the writer's slot to the reader's, by Protocol
  double message_us;                             // of a rank's thread for each slot sent or received: system calls
  double message_bandwidth;                      // GB/s at which that thread passes their bytes: copies, protection
};

// Processors that the ranks of a host share.
struct Processors {
  int of_host = 1;
  // Where hosts are namespaces of one machine, this many times more ranks share a processor than `of_host` suggests.
  double crowding = 1;
};
// `hosts` hosts with `ranks` ranks together share a machine's `cores`; `of_host` of these ranks are on one host.
Processors ShareProcessors(int cores, int hosts, int ranks, int of_host);

// Costs measured on one host (`tutti calibrate`), or the defaults of a small server.
struct HostCosts {
  Costs costs;
  std::array<double, ring::kProtocols> latency;  // us until the reader sees the writer's flag, by Protocol
  // Between domains of the host (topology/graph/domains.h). Not measured here: no machine with two of them was at hand.
  double domain_bandwidth = 0;   // GB/s that one domain can send to the others, and receive from them
  double domain_latency_us = 0;  // more than within a domain
};

// Properties of a host that the defaults follow.
struct HostTraits {
  std::size_t cache_bytes = std::size_t{32} << 20;  // the last-level cache, shared by the cores
  bool fast_string_copies = false;                  // the kernel's copies, by `rep movsb`, are as fast as vector copies
  bool wide_caches = false;                         // they move 64 bytes a cycle
};

// Measured on virtual machines of two Zen 3 cores and, for fetches and for an executor's bandwidth, of two Zen 2 cores;
// with wide caches, of two Zen 4 cores. Ratios carry over to other hosts, absolute values do not. `cores`: shared by
// the ranks.
HostCosts DefaultHostCosts(int cores, const HostTraits& traits = {});

// TCP on interfaces of `bandwidth` GB/s. `by_processor`: there is no hardware, so sending takes most of the time.
// `crowding` then says how many times more ranks share a processor than on one host (Processors).
NetworkCosts DefaultNetworkCosts(double bandwidth, bool by_processor, double crowding);

// RDMA devices of `bandwidth` GB/s together.
NetworkCosts RdmaNetworkCosts(double bandwidth);

// As JSON. Parsing throws tuttiInvalidArgument with `name` and the reason.
std::string ToJson(const HostCosts& costs);
HostCosts HostCostsFromJson(const std::string& text, const std::string& name);
HostCosts HostCostsFromJson(const JsonValue& json);

// A node for each domain. Rings visit the domains one after the other, in whatever order the ranks are.
schedule::RankLayout ArrangeByDomain(const topology::Domains& domains);

// One host. Each node of `rank_layout` is a domain of it, with a last-level cache of its own and an even share of the
// cores.
Machine DomainsMachine(const HostCosts& costs, schedule::RankLayout rank_layout);

// Every node of `rank_layout` is a host with these costs. Between nodes, slots cross the same memory (virtual nodes) or
// a network.
Machine HostMachine(const HostCosts& costs, schedule::RankLayout rank_layout,
                    const std::optional<NetworkCosts>& network = std::nullopt);

}  // namespace tutti::cost_model
