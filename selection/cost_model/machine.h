// The machine that a schedule runs on, as pricing and simulation see it: resources with a bandwidth, and for every pair
// of ranks the resources that a slot crosses. It consists of nodes of a few types, so one of 24,576 ranks is small.
//
// The model, which pricing and simulation share:
//   - For a step an executor takes step_us + bytes x (reads + writes) / executor bandwidth. Bytes of a slot that
//     another core has just written come at the crossing bandwidth instead, where there is one. Where Costs::cores is
//     0, each lane has an executor of its own (a GPU's thread block). Otherwise the ranks of a node share that many
//     host threads: rank r of a node runs all its lanes in turn on core r % cores, and passing a core on costs
//     yield_us.
//   - A slot crosses all resources of its route at once and shares each fairly. On a local route the writer's step
//     lasts until its bytes are across. On a route over the network the step ends when the slot is filled; the bytes
//     follow behind the slots before them. Each slot that is sent or received takes a message's time (message_us, and
//     its bytes at message_bandwidth) of the rank's network proxy, one after the other; where ranks share host threads,
//     of the rank's own thread, with the step that fills or empties it. Slots that a lane fills for the same rank, one after
//     the other and without waiting for the network in between, ride in one message, up to four of them: all but the
//     first cost their bytes alone.
//   - A sum (schedule.h) crosses the links from all ranks of the team to the switch and the one to its reader, while
//     the reader's step lasts, which takes the sum route's latency more. A multicast crosses the writer's link and the
//     links to all ranks. Both get the share Costs::in_switch_efficiency of these links.
//   - The reader sees a slot the route's latency (by protocol) after its last byte. The writer sees it emptied a
//   latency
//     after the reader's step.
//   - An operation costs operation_us once, and the ranks of a core pay for it one after the other. Its channels
//     begin channel_skew_us one after the other.
// Constants belong to resources, never to algorithms.
//
// Thread-safety: value type, immutable once made.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/schedule/rank_layout.h"
#include "transports/ring/slot.h"

namespace tutti::cost_model {

struct Resource {
  std::string name;      // "GPU3 -> NVSwitch", "mlx5_0 out", "memory"
  double bandwidth = 0;  // GB/s, 10^9 bytes a second
};

struct Route {
  std::vector<int> resources;
  std::array<double, ring::kProtocols> latency = {};  // us, by Protocol
  bool network = false;
};

inline constexpr std::size_t kAnySize = std::numeric_limits<std::size_t>::max();
// GB/s by the number of bytes touched: the effect of caches on memory.
struct RateStep {
  std::size_t footprint;  // up to this many bytes
  double bandwidth;
};
using Rate = std::vector<RateStep>;  // ascending; the last one holds beyond
// REQUIRES: there is a step.
double At(const Rate& rate, std::size_t footprint);
// 1 GB/s moves 1,000 bytes in a microsecond. 0 for a bandwidth of 0: it takes no time.
constexpr double UsPerByte(double bandwidth) { return bandwidth > 0 ? 1 / (bandwidth * 1e3) : 0; }

// Bytes that the ranks of a node work on, call after call.
struct WorkingSet {
  double buffers = 0;  // of users
  double slots = 0;    // all slots of the rings in use, and buffers for what is fetched
};
// GB/s at which an executor moves its operands.
struct MoveRates {
  double memory;
  double slot_read;
  double slot_write;
};

struct Costs {
  double operation_us = 0;
  // Small, but lets channels that share a link take turns, each using it during the others' slot latency.
  double channel_skew_us = 0;
  double step_us = 0;
  // Cost of a slot to its writer and its reader besides its bytes, by protocol: they fetch the lines of the flag and
  // the count from another core.
  std::array<double, ring::kProtocols> slot_us = {};
  Rate executor_bandwidth;  // by the bytes that a node's ranks touch together
  // The same where results are stored past the caches, so that their lines are not read first; 0: as executor_bandwidth.
  double streamed_bandwidth = 0;
  // GB/s of operands at which a core converts and rounds sums of 8- and 16-bit floats, which takes time in addition to
  // moving them; 0: it takes no time.
  double low_precision_bandwidth = 0;
  // By the bytes of a slot, times the ranks that share a core and its cache; empty: slots are read like other memory.
  Rate crossing_bandwidth;
  // A reader's own copy from another process (process_vm_readv), besides its bytes: for each call, and for each page,
  // which the kernel looks up and pins.
  double fetch_us = 0;
  double fetch_page_us = 0;
  double yield_us = 0;
  double helpers_us = 0;  // to wake a rank's helper threads for a call, and to wait for their end
  double message_us = 0;
  double message_bandwidth = 0;  // GB/s; 0: its bytes take no time
  int cores = 0;
  // Data bytes per byte that crosses a link: a GPU's inline protocol sends a flag with every 4 or 120 bytes.
  std::array<double, ring::kProtocols> protocol_efficiency = {1, 1, 1};
  // Slots between nodes are bulk, whatever protocol those within nodes have.
  bool bulk_between_nodes = false;
  ring::Protocol On(bool network, ring::Protocol protocol) const {
    return network && bulk_between_nodes ? ring::Protocol::bulk : protocol;
  }
  double in_switch_efficiency = 1;  // data bytes per byte that a link could carry, of sums and multicasts
};

// One node, its ranks and resources numbered from 0.
struct NodeType {
  std::vector<Resource> resources;
  std::vector<std::vector<Route>> local;  // [from][to]
  // A rank's routes to and from other nodes: one per NIC that it may use. Channels take them in turn (RouteOf). A transport
  // gives them its messages in turn, which is the same in the sum.
  std::vector<std::vector<Route>> outward;
  std::vector<std::vector<Route>> inward;
  // By rank, where a switch between the ranks adds and multiplies data: ways of a sum that the rank reads, and of a
  // multicast that it writes.
  std::vector<Route> sums, multicasts;
  // All ranks' data is in one memory, to which all local routes lead. Then every operand of a step passes it
  // (SlotsOfAnAccess), even if it does not leave a rank, and slots as such pass nothing.
  bool one_memory = false;
  int nranks() const { return static_cast<int>(local.size()); }
};

class Machine {
 public:
  // `type_of_node` by node of the rank layout, indices into `types`. The k-th rank of a node is its type's rank k.
  // REQUIRES: every node has as many ranks as its type.
  Machine(std::vector<NodeType> types, std::vector<int> type_of_node, schedule::RankLayout rank_layout, Costs costs);

  int nranks() const { return rank_layout_.nranks(); }
  // No route crosses a network, whatever the number of nodes.
  bool one_host() const { return one_host_; }
  bool one_memory() const { return types_.front().one_memory; }
  const schedule::RankLayout& rank_layout() const { return rank_layout_; }
  const Costs& costs() const { return costs_; }
  int resources() const { return first_resource_.back(); }
  const Resource& resource(int index) const;
  int NodeOfResource(int index) const;
  // The resource's number on its own node; where all nodes are alike, the same link has this number on every node.
  int LocalNumber(int index) const { return index - first_resource_[NodeOfResource(index)]; }
  std::size_t ranks_of_fullest_node() const { return ranks_of_fullest_node_; }
  // On the fullest node; 1 where every lane has an executor of its own.
  double ranks_per_core() const { return ranks_per_core_; }
  // For slots of `slot_bytes`. `streamed`: results are stored past the caches.
  MoveRates RatesOf(const WorkingSet& set, double slot_bytes, bool streamed) const;
  // Whether a switch joins the ranks of every node that adds and multiplies data.
  bool has_teams() const { return has_teams_; }
  // These number resources across the machine.
  Route RouteOf(int from, int to, int channel) const;
  // REQUIRES: has_teams().
  Route SumRouteOf(int reader) const;
  Route MulticastRouteOf(int writer) const;

 private:
  Route Numbered(Route route, int node) const;

  std::vector<NodeType> types_;
  std::vector<int> type_of_node_;
  std::vector<int> first_resource_;  // by node, and one past
  std::vector<int> place_;           // of a rank on its node
  schedule::RankLayout rank_layout_;
  Costs costs_;
  bool one_host_ = true;
  bool has_teams_ = true;
  std::size_t ranks_of_fullest_node_ = 0;
  double ranks_per_core_ = 1;
};

}  // namespace tutti::cost_model
