// How long a schedule takes on a machine, from its own steps and the machine's constants alone. Where the simulator
// plays every event, this follows the dependencies of one chunk once and adds what the busiest executor, lane or link
// needs for each further chunk:
//
//     duration = operation + first chunk (longest way through the steps) + (chunks - 1) x slowest of
//                  an executor's steps, a lane's span, a link's bytes
//
// Not in it, and so the simulator's business: links shared unevenly over time, slots that run out.
// Where ranks share cores, a rank's steps take as much longer as its core has work for others, and who waits for a rank
// waits for a turn of all ranks of a core.
//
// Thread-safety: const members may be called from one thread at a time (they remember).
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "algorithms/ensemble.h"
#include "algorithms/machine.h"
#include "algorithms/shape.h"

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

 private:
  // A step waits for the one before it in its lane, for others of its rank, and for slots.
  struct Wait {
    int node;
    int way = -1;  // index into ways_; -1: same rank
  };
  struct Node {
    int member;
    int lane;             // counted through all members and channels
    int first_wait;       // its waits are waits_[first_wait ... the next node's first_wait)
    int memory_operands;  // of the user's buffers and scratch
    int slot_reads;
    int slot_writes;
    double us_per_byte;  // of the narrowest link that the step itself writes across
  };
  // Pairs of ranks with the same latency and bandwidth go the same way.
  struct Way {
    std::array<double, kWires> latency;
    double us_per_byte;  // that pass after the writer's step has ended; 0 on a local route
    bool operator<(const Way& other) const {
      return std::tie(latency, us_per_byte) < std::tie(other.latency, other.us_per_byte);
    }
  };
  struct Send {
    int member;
    int peer;
    int slots;  // a chunk
  };
  // Durations for one chunk of `bytes`.
  struct Chunk {
    double first = 0;    // until the last step has ended
    double further = 0;  // executors and lanes: for each further chunk
  };
  struct Rates {
    Wire wire;
    double memory_us_per_byte;
    double slot_read_us_per_byte;
    double slot_write_us_per_byte;
    bool operator<(const Rates& other) const {
      return std::tie(wire, memory_us_per_byte, slot_read_us_per_byte, slot_write_us_per_byte) <
             std::tie(other.wire, other.memory_us_per_byte, other.slot_read_us_per_byte, other.slot_write_us_per_byte);
    }
  };

  class Builder;
  Chunk Walk(const Rates& rates, double bytes) const;
  Chunk ChunkOf(const Rates& rates, double bytes) const;
  double BusiestLink(Wire wire, int channels) const;
  void FindShares(const Ensemble& ensemble);

  const Machine& machine_;
  int unit_channels_ = 1;
  int pieces_ = 1;
  int lanes_ = 0;
  int slots_in_flight_ = 0;  // slots that the busiest rank fills for one chunk
  std::vector<Node> nodes_;  // in an order in which they can run
  std::vector<Wait> waits_;
  std::vector<Way> ways_;
  std::vector<Send> sends_;
  std::vector<double> slowdown_;  // by member: how much longer its steps take beside others on its core
  double turn_us_ = 0;            // until everybody on a core has had it once
  mutable std::map<Rates, std::vector<Chunk>> samples_;
  mutable std::map<std::pair<Wire, int>, double> busiest_link_;
};

}  // namespace tutti
