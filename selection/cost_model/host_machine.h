// The machine model of ranks that are processes of hosts and talk through shared memory: where its constants come from.
//
// Thread-safety: pure functions, but for the file.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "selection/cost_model/machine.h"

namespace tutti {

// What the network between hosts is to a rank that moves its own slots.
struct NetworkCosts {
  double bandwidth;                    // GB/s of a host's interfaces together, each way
  std::array<double, kWires> latency;  // us from the writer's slot to the reader's, by Wire
  double message_us;                   // system calls for each slot sent or received
};

// What the ranks of a host share.
struct Processors {
  int of_host = 1;
  // Several hosts may be namespaces of one machine: so many times more ranks share a processor than `of_host` tells.
  double crowding = 1;
};
// A machine's `cores` are shared by `hosts` hosts with `ranks` ranks together, of which `of_host` are of one.
Processors ShareProcessors(int cores, int hosts, int ranks, int of_host);

// What was measured on one host (`tutti calibrate`), or the defaults of a small server.
struct HostCosts {
  Costs costs;
  std::array<double, kWires> latency;  // us from the writer's flag to the reader's eye, by Wire
};

// Measured on a virtual machine of two Zen 3 cores (docs/performance.md); ratios carry over to other hosts, absolutes
// do not. `cores`: that the ranks share.
HostCosts DefaultHostCosts(int cores);

// TCP on interfaces of `bandwidth` GB/s. `by_processor`: without hardware, so that sending is most of the way; then
// `crowding` says how many ranks share a processor beyond those of one host (hosts that are namespaces of one machine).
NetworkCosts DefaultNetworkCosts(double bandwidth, bool by_processor, double crowding);

// RDMA devices of `bandwidth` GB/s together.
NetworkCosts RdmaNetworkCosts(double bandwidth);

// As JSON. Parsing throws tuttiInvalidArgument with `name` and the reason.
std::string ToJson(const HostCosts& costs);
HostCosts HostCostsFromJson(const std::string& text, const std::string& name);
HostCosts HostCostsFromJson(const JsonValue& json);

// Every node of `arrangement` is a host with these costs; between nodes the same memory is crossed (virtual nodes), or
// a network.
Machine HostMachine(const HostCosts& costs, Arrangement arrangement,
                    const std::optional<NetworkCosts>& network = std::nullopt);

}  // namespace tutti
