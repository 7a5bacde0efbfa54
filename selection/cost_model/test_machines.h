// Small machines with round numbers, for tests.
//
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <limits>

#include "selection/cost_model/machine.h"

namespace tutti::cost_model {

inline constexpr double kSwitchBandwidth = 100;  // GB/s, in and out of every rank on its node
inline constexpr double kNetworkBandwidth = 20;
inline constexpr double kLocalLatency = 1;  // us
inline constexpr double kNetworkLatency = 3;
inline constexpr double kNoLimit = 1e9;  // GB/s

// Executors that cost nothing but what the test sets.
inline Costs FreeCosts() {
  Costs costs;
  costs.executor_bandwidth = {{std::numeric_limits<std::size_t>::max(), kNoLimit}};
  return costs;
}

// `nodes` of `ranks` each, joined by a switch on the node, each with its own network card.
// Resources of a rank: 4k out, 4k + 1 in, 4k + 2 to the network, 4k + 3 from it. The switch adds and multiplies data.
inline Machine SwitchedMachine(int nodes, int ranks, const Costs& costs = FreeCosts(),
                               double switch_bandwidth = kSwitchBandwidth, double local_latency = kLocalLatency) {
  NodeType type;
  const auto at_every_protocol = [](double latency) {
    return std::array<double, ring::kProtocols>{latency, latency, latency};
  };
  for (int i = 0; i < ranks; ++i) {
    type.resources.push_back({"out", switch_bandwidth});
    type.resources.push_back({"in", switch_bandwidth});
    type.resources.push_back({"network out", kNetworkBandwidth});
    type.resources.push_back({"network in", kNetworkBandwidth});
    auto& local = type.local.emplace_back();
    Route& sum = type.sums.emplace_back(Route{{4 * i + 1}, at_every_protocol(2 * local_latency)});
    Route& multicast = type.multicasts.emplace_back(Route{{4 * i}, at_every_protocol(local_latency)});
    for (int j = 0; j < ranks; ++j) {
      local.push_back({{4 * i, 4 * j + 1}, at_every_protocol(local_latency)});
      sum.resources.push_back(4 * j);
      multicast.resources.push_back(4 * j + 1);
    }
    type.outward.push_back({{{4 * i + 2}, at_every_protocol(kNetworkLatency), true}});
    type.inward.push_back({{{4 * i + 3}, at_every_protocol(0), true}});
  }
  return Machine({type}, std::vector<int>(static_cast<std::size_t>(nodes), 0),
                 schedule::ArrangeEvenly(nodes * ranks, nodes), costs);
}

}  // namespace tutti::cost_model
