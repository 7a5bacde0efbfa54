// The steps that the representatives' ranks take for one chunk, in a runnable order and with the waits of each. Pricing
// walks this graph.
//
// Thread-safety: value type.
#pragma once

#include <array>
#include <vector>

#include "selection/cost_model/machine.h"
#include "selection/cost_model/representative_ranks.h"

namespace tutti::cost_model {

struct StepGraph {
  // A step waits for the one before it in its lane, for others of its rank, and for slots.
  struct Wait {
    int node;
    int way = -1;  // index into ways; -1: same rank
  };
  // The operands of a step, counted by kind.
  struct Operands {
    int memory = 0;  // of the user's buffers and scratch
    int slot_reads = 0;
    int slot_writes = 0;
    int fetches = 0;  // calls that copy from another process
    int summands = 0;
    friend bool operator==(const Operands&, const Operands&) = default;
  };
  // The work of a step; many steps have the same.
  struct Work {
    Operands copying;        // slots carry their data
    Operands fetching;       // ProtocolConfig::cma: slots within a node refer to memory where the schedule lets them
    double us_per_byte = 0;  // of the narrowest link that the step itself writes across
    double read_us = 0;      // until the first bytes of a sum come
    // Slots that the step fills for other hosts, or empties of theirs; and those of them that ride in an earlier one's message.
    int messages = 0;
    int riding = 0;
    friend bool operator==(const Work&, const Work&) = default;
  };
  struct Node {
    int member;
    int lane;        // counted through all members and channels
    int work;        // index into works
    int first_wait;  // its waits are waits[first_wait ... the next node's first_wait)
  };
  // Pairs of ranks with the same latency and bandwidth go the same way.
  struct Way {
    std::array<double, ring::kProtocols> latency;
    double us_per_byte;  // of the narrowest link
    bool network;        // bytes pass after the writer's step has ended, not while it lasts
    friend bool operator==(const Way&, const Way&) = default;
  };
  struct Send {
    int member;
    int peer;
    int channel;  // of the unit
    int slots;    // a chunk
    int way;
  };

  // Slots for other nodes that a step of a member's channel writes at once.
  struct Burst {
    int member;
    int channel;  // of the unit
    std::vector<int> peers;
  };

  // A sum that a rank reads, or a multicast that it writes.
  struct InSwitch {
    int member;
    bool sum;
  };

  // REQUIRES: machine and representatives have equally many ranks. A step does not wait for a slot that no order
  // can fill: the representatives' stand-ins are not perfect.
  StepGraph(const Machine& machine, const RepresentativeRanks& representatives);

  int lanes = 0;
  // Rings of slots that the member with the most fills on a unit of channels: all, and those whose slots carry data
  // where slots refer to memory (ProtocolConfig::cma).
  int rings = 0;
  int rings_beside_fetches = 0;
  std::vector<Node> nodes;  // and one past the end, for its first_wait
  std::vector<Wait> waits;
  std::vector<Work> works;
  std::vector<Way> ways;
  std::vector<Send> sends;
  std::vector<Burst> bursts;        // the largest of each member and channel
  std::vector<InSwitch> in_switch;  // of a chunk
  // What each of them, and of the slots in `works`, takes of a resource, in slots. Where one memory holds all data, these
  // are accesses to it.
  double slots_of_a_crossing = 1;
};

}  // namespace tutti::cost_model
