// How long a schedule takes on a machine, from its own steps and the machine's constants alone. Where the simulator
// plays every event, pricing follows the dependencies of one chunk once and adds what the busiest executor, lane or
// link needs for each further chunk:
//
//     duration = operation + first chunk (longest path through the steps) + (chunks - 1) x slowest of
//                  an executor's steps, a lane's span, a proxy's messages, a link's bytes
//
// All channels, and all ranks of a node, begin at the same time, so their first chunks cross the network together. Each is
// slowed by the number of slots that they send on its link at once, and none is done before the busiest link has carried
// them all, plus the steps before and after. Later chunks are spread out and share only the link's time.
//
// The longest paths are found for a grid of sizes. Between grid points, use the longer of the two neighbouring paths,
// which is at most slightly too short.
// Where slots refer to memory that the reader fetches (ProtocolConfig::cma), the writer's bytes cost nothing, the
// reader pays for each call and page, and the operation ends when the last reader has its copy.
// Left to the simulator: links shared unevenly over time, and slots that run out.
// Where ranks share cores, a rank's steps are slowed by its core's work for other ranks, and each wait for a rank
// includes a turn of all ranks of a core.
//
// Thread-safety: const members may be called from one thread at a time (they remember).
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "algorithms/schedule/protocol_config.h"
#include "selection/cost_model/candidates.h"
#include "selection/cost_model/link_traffic.h"
#include "selection/cost_model/step_graph.h"

namespace tutti::cost_model {

// How much a call moves, and how.
struct Load {
  std::size_t block_bytes = 0;  // of one block of the schedule
  std::size_t footprint = 0;    // bytes of user buffers that a node's ranks touch together
  int channels = 1;             // units (representative_ranks.h)
  schedule::ProtocolConfig config = {};
  bool streamed = false;  // results are stored past the caches
  bool low_precision = false;
};

class CostModel {
 public:
  // REQUIRES: machine and representatives have equally many ranks; the machine outlives the price.
  CostModel(const Machine& machine, const RepresentativeRanks& representatives);
  CostModel(const CostModel&) = delete;  // traffic_ refers to graph_
  CostModel& operator=(const CostModel&) = delete;

  double Microseconds(const Load& load) const;
  // The traffic that it charges the machine's links for.
  const LinkTraffic& traffic() const { return traffic_; }
  const Unit& unit() const { return unit_; }

 private:
  // Besides sizes, the longest paths depend on this alone.
  struct SlotUse {
    ring::Protocol protocol;
    bool cma;
    bool low_precision;
    friend auto operator<=>(const SlotUse&, const SlotUse&) = default;
  };
  // Microseconds that a byte takes, by operand.
  struct Rates {
    double memory;
    double slot_read;
    double slot_write;
    double summand;
  };
  // A path through the steps, one after the other: fixed + bytes x the time per byte of its operands and links.
  struct Path {
    double fixed = 0;
    double memory_operands = 0;
    double slot_reads = 0;
    double slot_writes = 0;
    double summands = 0;
    double us_per_byte = 0;          // of links that steps write across
    double network_us_per_byte = 0;  // of those that slots cross by themselves
    // `sharing`: see Crossing.
    double Microseconds(const Rates& rates, double bytes, double sharing = 1) const;
    void Add(const Path& other, double times);
  };
  // Microseconds that the busiest link needs for one byte of every block on one channel: for all slots, and for those
  // that go over the network.
  struct Crossing {
    double all = 0;
    double network = 0;
    double network_sharing = 1;  // LinkTraffic::NetworkSharing
  };
  // The longest paths of a chunk.
  struct Paths {
    std::vector<Path> first;  // until its last step has ended
    // The part before the first slot goes over the network and after the last one's bytes have crossed.
    std::vector<Path> around_network;
    std::vector<Path> further;  // for each further chunk, at an executor or in a lane
  };

  // Ranks on a host move their own messages, with the steps that fill and empty the slots.
  bool has_proxies() const { return machine_.costs().cores == 0; }
  void FindShares(const RepresentativeRanks& representatives);
  void FindProxies();
  Path StepPath(const StepGraph::Work& work, SlotUse use, const Rates& rates) const;
  Path WayPath(const StepGraph::Way& way, ring::Protocol protocol) const;
  struct Walked;
  Walked WalkSteps(SlotUse use, const Rates& rates, double bytes) const;
  void Walk(SlotUse use, const Rates& rates, double bytes, Paths& paths) const;
  Rates RatesAt(SlotUse use, double bytes, const Load& load) const;
  const Paths& PathsOf(SlotUse use, std::size_t grid_point) const;
  Crossing BusiestLink(ring::Protocol protocol, int channels) const;

  const Machine& machine_;
  Unit unit_;
  int blocks_ = 1;  // of a schedule
  StepGraph graph_;
  LinkTraffic traffic_;
  int fetched_ = 0;                 // blocks that a step fetches before it reduces them, at most
  double proxy_us_ = 0;             // that the busiest rank's network proxy needs for one chunk
  std::vector<double> slowdown_;    // by member: how much the other ranks on its core slow its steps
  double latency_within_node_ = 0;  // us, of the bulk protocol
  double turn_us_ = 0;              // until every rank of a core has had a turn
  mutable std::map<std::pair<SlotUse, std::size_t>, Paths> paths_;
  mutable std::map<std::pair<ring::Protocol, int>, Crossing> busiest_link_;
};

}  // namespace tutti::cost_model
