// A schedule bound to one communicator's connections, one type and one size: what a repeated call looks up and runs.
// Everything that does not depend on the buffers' addresses is worked out here, once.
//
// Thread-safety: immutable after construction, except the ring ends it points to, which the thread that runs it owns.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "algorithms/schedule/binding.h"
#include "algorithms/schedule/protocol_config.h"
#include "executors/host/kernels/reduce.h"
#include "transports/shm/fabric.h"

namespace tutti::host {

struct BoundOperand {
  schedule::OperandKind kind;
  bool scaled = false;
  bool is_slot = false;
  int peer = -1;                    // of a connection's slot
  bool by_network = false;          // the slot crosses hosts
  std::uint16_t connection = 0;     // of a slot that crosses hosts: progress::ConnectionOf
  ring::FillEnd* fill = nullptr;    // written slots
  ring::EmptyEnd* empty = nullptr;  // read slots
  std::size_t offset = 0;           // memory: bytes from the start of input, output or scratch, channel share included
};

struct BoundStep {
  std::uint32_t length = 0;  // chunks of this step; see Chunks()
  std::size_t bytes = 0;     // of the step's block in this channel
  std::span<const BoundOperand> reads;
  std::span<const BoundOperand> writes;
  std::span<const schedule::After> after;
  bool arithmetic = false;  // reduces or scales; otherwise it copies
  bool final = false;
  bool fills = false;       // writes at least one slot
  bool uses_slots = false;  // reads or writes one
  // Memory whose content equals what the step puts into its slots, if a slot may refer to it instead: the only source
  // of a copy, or a block that the step itself writes.
  const BoundOperand* referable = nullptr;
  // Memory to which the step copies the slot that it reads, if the network may bring the data there itself; else null.
  const BoundOperand* lands = nullptr;
  // No other step of the channel reads or writes that part of the output, so the data may come before this step's turn.
  bool lands_early = false;
};

struct BoundLane {
  std::vector<BoundStep> steps;
  std::uint32_t chunks = 0;  // the longest step's
  // Ends whose slots must be drained before the operation may return, when slots refer to user memory.
  std::vector<ring::FillEnd*> fills;
};

struct BoundChannel {
  std::vector<BoundLane> lanes;
};

class Plan {
 public:
  // Connects the schedule's steps to `fabric`, using channels first_channel, first_channel + 1, ..., one for each
  // connection of each channel, and takes the page faults of every ring it will use. REQUIRES: config.chunk_bytes fits
  // the protocol's slots; type and op are valid.
  Plan(schedule::Schedule schedule, schedule::Extents extents, schedule::ProtocolConfig config, tuttiDataType_t type,
       tuttiRedOp_t op, shm::Fabric& fabric, int first_channel);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const schedule::Schedule& schedule() const { return schedule_; }
  const schedule::Extents& extents() const { return extents_; }
  const schedule::ProtocolConfig& config() const { return config_; }
  tuttiDataType_t type() const { return type_; }
  std::span<const BoundChannel> channels() const { return channels_; }
  // Ranks of other hosts that its slots go to or come from; some more than once.
  const std::vector<int>& network_peers() const { return network_peers_; }
  host_kernels::ReduceFunction reduce() const { return reduce_; }
  int divisor() const { return divisor_; }
  // One channel of one lane, whose steps run once each, in slots that carry their data.
  bool one_pass() const { return one_pass_; }
  std::size_t scratch_bytes() const { return binding_.scratch_bytes(); }  // of one channel
  // Bytes of one channel for fetching a reduction's sources that cannot be read in place. 0: they all can.
  std::size_t fetch_bytes() const { return fetch_bytes_; }
  // Bytes of input read and output written by this rank; decides whether stores bypass the caches.
  std::size_t footprint() const { return footprint_; }
  // The part of the input that this rank reads: from `begin` to `end`.
  struct Range {
    std::size_t begin = std::numeric_limits<std::size_t>::max(), end = 0;
  };
  const Range& reads_input() const { return reads_input_; }

 private:
  bool IsOnePass() const;
  void FindLandings(BoundChannel& channel) const;
  void Bind(const schedule::Channel& channel, int index, shm::Fabric& fabric, int fabric_channel);
  BoundOperand BindOperand(const schedule::Operand& operand, bool written, int channel, shm::Fabric& fabric,
                           int fabric_channel);

  schedule::Schedule schedule_;
  schedule::Extents extents_;
  schedule::ProtocolConfig config_;
  schedule::Binding binding_;
  tuttiDataType_t type_;
  host_kernels::ReduceFunction reduce_;
  int divisor_;
  bool one_pass_ = false;
  std::vector<BoundChannel> channels_;
  // The operands of each lane. BoundStep's spans point into them. Together, so that a small message touches few pages.
  std::vector<std::vector<BoundOperand>> operands_;
  std::vector<int> network_peers_;
  std::size_t fetch_bytes_ = 0;
  std::size_t footprint_ = 0;
  Range reads_input_;
};

}  // namespace tutti::host
