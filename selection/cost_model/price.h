// How long a schedule takes on a machine, from its own steps and the machine's constants alone. Where the simulator
// plays every event, this follows the dependencies of one chunk once and adds what the busiest executor, lane or link
// needs for each further chunk:
//
//     duration = operation + first chunk (longest way through the steps) + (chunks - 1) x slowest of
//                  an executor's steps, a lane's span, a proxy's messages, a link's bytes
//
// All channels begin at the same time. So their first chunks cross the network together, each as much slower as
// channels share a link, and are not done before the busiest link has carried all of them, with what is before and
// after that. Later chunks are apart from each other, and share only the link's time.
//
// The longest ways are found for a grid of sizes. Between its points the longest of both ends' counts, which is at most
// a little too short.
// Not in it, and so the simulator's business: links shared unevenly over time, slots that run out.
// Where ranks share cores, a rank's steps take as much longer as its core has work for others, and who waits for a rank
// waits for a turn of all ranks of a core.
//
// Thread-safety: const members may be called from one thread at a time (they remember).
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "algorithms/schedule/shape.h"
#include "selection/cost_model/candidates.h"
#include "selection/cost_model/step_graph.h"

namespace tutti {

// How much a call moves, and how.
struct Load {
  std::size_t block_bytes = 0;  // of one block of the schedule
  std::size_t footprint = 0;    // bytes of user buffers that a node's ranks touch together
  int channels = 1;             // of the algorithm's own unit
  Shape shape = {};
};

class Price {
 public:
  // REQUIRES: machine and ensemble have equally many ranks; the machine outlives the price.
  Price(const Machine& machine, const Ensemble& ensemble);

  double Microseconds(const Load& load) const;
  // Channels that one unit takes (a double binary tree: two).
  int unit_channels() const { return unit_channels_; }
  // Schedule::pieces of its schedules.
  int pieces() const { return pieces_; }
  const UnitOnGpu& on_gpu() const { return on_gpu_; }

 private:
  // Microseconds that a byte takes.
  struct Rates {
    double memory;
    double slot_read;
    double slot_write;
  };
  // What a way through the steps takes, one after the other: fixed + bytes x what its operands and links take for one.
  struct Path {
    double fixed = 0;
    double memory_operands = 0;
    double slot_reads = 0;
    double slot_writes = 0;
    double us_per_byte = 0;          // of links that steps write across
    double network_us_per_byte = 0;  // of those that slots cross by themselves
    // `sharing`: so many channels' slots cross a network link at the same time.
    double Microseconds(const Rates& rates, double bytes, double sharing = 1) const;
    void Add(const Path& other, double times);
  };
  // Microseconds that the busiest link needs for a byte of every block, were there one channel: of all slots, and of
  // those that go over the network.
  struct Crossing {
    double all = 0;
    double network = 0;
  };
  // The longest ways of a chunk.
  struct Paths {
    std::vector<Path> first;  // until its last step has ended
    // What of that is before the first slot goes over the network and after the last one's bytes are across.
    std::vector<Path> around_network;
    std::vector<Path> further;  // for each further chunk, at an executor or in a lane
  };

  void FindShares(const Ensemble& ensemble);
  void FindProxies();
  Path StepPath(const StepGraph::Work& work, Wire wire, const Rates& rates) const;
  Path WayPath(const StepGraph::Way& way, Wire wire) const;
  struct Walked;
  Walked WalkSteps(Wire wire, const Rates& rates, double bytes) const;
  void Walk(Wire wire, const Rates& rates, double bytes, Paths& paths) const;
  Rates RatesAt(double bytes, std::size_t footprint) const;
  const Paths& PathsOf(Wire wire, std::size_t grid_point) const;
  int InChannel(int rank, int channel) const;
  Crossing BusiestLink(Wire wire, int channels) const;

  const Machine& machine_;
  int unit_channels_ = 1;
  int pieces_ = 1;
  UnitOnGpu on_gpu_;
  int blocks_ = 1;  // of a schedule
  StepGraph graph_;
  int slots_in_flight_ = 0;         // slots that the busiest rank fills for one chunk
  double proxy_us_ = 0;             // that the busiest rank's network proxy needs for one chunk
  std::vector<double> slowdown_;    // by member: how much longer its steps take beside others on its core
  std::vector<int> place_in_ring_;  // by rank: in the first ring; empty: channels go the same way
  double turn_us_ = 0;              // until everybody on a core has had it once
  mutable std::map<std::pair<Wire, std::size_t>, Paths> paths_;
  mutable std::map<std::pair<Wire, int>, Crossing> busiest_link_;
};

}  // namespace tutti
