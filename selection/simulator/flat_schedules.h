// The schedules of all simulated ranks in flat arrays, with every operand bound to a connection, for the simulator to
// walk. Ranks may stand for others (node_classes.h): then a rank that is read from may be simulated as its
// representative, and one connection may serve several readers.
//
// Thread-safety: immutable once made.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "algorithms/schedule/extents.h"
#include "algorithms/schedule/schedule.h"
#include "selection/cost_model/machine.h"
#include "selection/simulator/event_queue.h"
#include "selection/tuner/tuner.h"

namespace tutti::simulator {

// Classes of nodes that behave alike: one node of each class is simulated.
struct NodeClasses {
  std::vector<int> class_of = {};  // by node
  std::vector<int> node_of = {};   // by class: the one that stands for it

  int classes() const { return static_cast<int>(node_of.size()); }
  int StandInFor(int node) const { return node_of[class_of[node]]; }
};
// Every node stands for itself.
NodeClasses EveryNodeItself(int nodes);

struct FlatStep {
  std::int32_t block;
  std::uint32_t first;        // of its operands: edges that it empties, connections that it fills, ways of sums that it
                              // reads, (lane, step) pairs
  std::uint16_t empties = 0;  // slots read
  std::uint16_t reads = 0;    // the same, a sum's slots as one
  std::uint16_t sums = 0;
  std::uint16_t fills = 0;     // slots written; a post counts for each reader
  std::uint16_t memory = 0;    // operands read and written that are no slots
  std::uint16_t writes = 0;    // slots written; a post counts once
  std::uint16_t accesses = 0;  // to the memory, on a machine with one (AccessesOf)
  std::uint8_t afters = 0;
  bool may_ride = false;  // in the message of the step before it: schedule::RidingSteps
};

struct FlatLane {
  int rank;
  int channel;
  int number;                // in its channel
  std::uint32_t first_lane;  // of its channel
  std::uint32_t lanes;       // in its channel
  std::uint32_t first_step;
  std::uint32_t steps;
  std::uint32_t chunks;  // the longest step's
  bool awaited = false;  // another lane waits for one of its steps
};

// The way from a writer to its readers: usually one.
struct FlatConnection {
  int from;
  int to;
  int channel;
  std::uint32_t lane = 0;       // that fills it
  std::int32_t edge = -1;       // the first of its edges
  std::vector<int> route = {};  // resources, of the nodes that are simulated
  double per_byte = 1;          // link bytes per data byte
  Time read_latency = 0;        // of a sum: until its first bytes come
  bool network = false;         // the writer does not wait for the bytes to be across
  bool rides_along = false;     // its bytes cross otherwise: with a post's for its node's first reader, as accesses, or
                                // in a sum
};

// A reader's end.
struct FlatEdge {
  int connection = -1;
  std::uint32_t lane = 0;  // that empties it
  std::int32_t next = -1;  // of the same connection
  Time latency = 0;
};

class FlatSchedules {
 public:
  using Source = std::function<schedule::Schedule(int rank)>;

  // Asks `source` for one rank's schedule at a time. Throws if a schedule reads from a rank that does not write to it.
  FlatSchedules(const cost_model::Machine& machine, const Source& source, const schedule::Extents& extents,
                const schedule::ProtocolConfig& config, const NodeClasses& node_classes);

  std::span<const FlatLane> lanes() const { return lanes_; }
  const FlatStep& step(const FlatLane& lane, std::uint32_t number) const { return steps_[lane.first_step + number]; }
  std::span<const std::uint32_t> Empties(const FlatStep& step) const { return Operands(step.first, step.empties); }
  std::span<const std::uint32_t> Fills(const FlatStep& step) const {
    return Operands(step.first + step.empties, step.fills);
  }
  // Connections that have no reader's end: the ways by which a switch brings the step what it adds.
  std::span<const std::uint32_t> Sums(const FlatStep& step) const {
    return Operands(step.first + step.empties + step.fills, step.sums);
  }
  // Pairs of lane (of the channel) and step.
  std::span<const std::uint32_t> Afters(const FlatStep& step) const {
    return Operands(step.first + step.empties + step.fills + step.sums, std::size_t{2} * step.afters);
  }
  // On a machine with one memory, the last connections are the lanes' own ways to it, in the lanes' order.
  std::span<const FlatConnection> connections() const { return connections_; }
  std::uint32_t MemoryOf(std::uint32_t lane) const {
    return static_cast<std::uint32_t>(connections_.size() - lanes_.size()) + lane;
  }
  std::span<const FlatEdge> edges() const { return edges_; }

  // Bytes of a chunk of the step's block; -1: the step is skipped for this chunk.
  std::int64_t ChunkBytes(const FlatLane& lane, const FlatStep& step, std::uint32_t chunk) const {
    const std::size_t share = ShareOf(step.block, lane.channel);
    const std::size_t begin = std::size_t{chunk} * chunk_bytes_;
    if (begin < share) return static_cast<std::int64_t>(std::min(chunk_bytes_, share - begin));
    return pairwise_ && chunk == 0 && step.empties + step.fills > 0 ? 0 : -1;
  }

 private:
  friend class Flattener;

  std::span<const std::uint32_t> Operands(std::size_t first, std::size_t count) const {
    return std::span(operands_).subspan(first, count);
  }
  std::size_t ShareOf(std::int32_t block, int channel) const {
    const std::size_t unit = share_unit_[block];
    const std::size_t length = length_[block];
    const auto c = static_cast<std::size_t>(channel);
    return channel + 1 == channels_ ? length - std::min(length, c * unit)
                                    : std::min(length, (c + 1) * unit) - std::min(length, c * unit);
  }

  std::vector<FlatStep> steps_;
  std::vector<std::uint32_t> operands_;
  std::vector<FlatLane> lanes_;
  std::vector<FlatConnection> connections_;
  std::vector<FlatEdge> edges_;
  std::vector<std::size_t> length_, share_unit_;  // by block
  std::size_t chunk_bytes_;
  int channels_ = 0;
  bool pairwise_;
};

}  // namespace tutti::simulator
