// The parts of Run that every way of executing a step uses; included by its source files alone.
//
// Thread-safety: as Run.
#pragma once

#include "executors/host/run.h"

namespace tutti::host {

// Whether all slots that the step reads have come, and all that it fills are free. Done: they have and are.
inline Run::Outcome Run::Ready(ChannelState& state, LaneState& lane, const BoundStep& step) {
  for (std::size_t i = lane.ready_reads; i < step.reads.size(); ++i) {
    const auto* empty = step.reads[i].empty;
    if (empty == nullptr) continue;
    const auto look = empty->Look(launch_.tag);
    if (look == ring::EmptyEnd::State::ready) continue;
    if (look == ring::EmptyEnd::State::foreign) {
      state.fault = {Fault::Kind::foreign, empty->peer(), 0, 0};
      return Outcome::faulted;
    }
    lane.ready_reads = static_cast<std::uint16_t>(i);
    lane.blocked_on = empty;
    return Outcome::blocked;
  }
  if (step.fills) {
    for (const auto& write : step.writes) {
      if (write.fill != nullptr && !write.fill->HasRoom()) return Outcome::blocked;
    }
  }
  lane.ready_reads = 0;
  return Outcome::done;
}

inline std::byte* Run::Memory(ChannelState& state, const BoundOperand& operand, std::size_t done) const {
  switch (operand.kind) {
    // Never written through: the schedule's inputs are only read.
    case schedule::OperandKind::input: return const_cast<std::byte*>(launch_.input) + operand.offset + done;
    case schedule::OperandKind::output: return launch_.output + operand.offset + done;
    default: return state.scratch.data() + operand.offset + (plan_.schedule().whole_scratch ? done : 0);
  }
}

// Finds where a slot's data can be read. Data in another process is fetched to `fetch_to`. False: it could not be.
inline bool Run::Source(ChannelState& state, const BoundOperand& operand, std::size_t done, std::size_t bytes,
                        const std::byte*& source, std::byte* fetch_to) {
  if (!operand.is_slot) {
    source = Memory(state, operand, done);
    return true;
  }
  const auto content = operand.empty->Content();
  if (content.bytes != bytes) {
    state.fault = {Fault::Kind::length, operand.empty->peer(), bytes, content.bytes};
    return false;
  }
  if (content.kind != ring::SlotKind::value) {
    return SourceElsewhere(state, operand, content.kind, bytes, source, fetch_to);
  }
  state.traffic.received[Traffic::IndexOf(operand, ring::SlotKind::value)] += bytes;
  source = operand.empty->Data();
  return true;
}

// Makes the slot visible, whose data or reference is written.
inline void Run::Publish(ChannelState& state, const BoundOperand& write, ring::SlotKind kind, std::size_t bytes) {
  auto& header = write.fill->Header();
  header.bytes = static_cast<std::uint32_t>(bytes);
  header.kind = kind;
  write.fill->Publish(launch_.tag);
  state.traffic.sent[Traffic::IndexOf(write, kind)] += bytes;
}

}  // namespace tutti::host
