#include "executors/host/run.h"

#include "base/numbers/datatype.h"
#include "executors/host/doorbell.h"
#include "executors/host/kernels/copy.h"
#include "transports/progress/network.h"

namespace tutti::host {

static_assert(schedule::kMaxReads <= host_kernels::kMaxReduceSources &&
                  schedule::kMaxWrites <= host_kernels::kMaxReduceDestinations,
              "a step fits one reduction");

Run::Run(const Plan& plan, shm::Fabric& fabric, progress::NetworkEngine* network, const WindowMap& windows)
    : plan_(plan), fabric_(fabric), network_(network), windows_(windows), states_(plan.channels().size()) {
  for (std::size_t c = 0; c < states_.size(); ++c) {
    states_[c].lanes.resize(plan.channels()[c].lanes.size());
    states_[c].scratch.resize(plan.scratch_bytes());
    states_[c].fetched.resize(plan.fetch_bytes());
  }
  if (plan.one_pass()) pass_.emplace(plan, fabric);
}

void Run::Restart() {
  const bool dense = launch_.input_strided == nullptr && launch_.output_strided == nullptr;
  if (pass_ && dense && !launch_.scaled) {
    StartPass(launch_.input, launch_.output, launch_.tag);
    return;
  }
  passes_ = false;
  launch_.receive_in_place = launch_.receive_in_place && network_ != nullptr && network_->lands_in_place();
  input_here_ = output_here_ = RemoteAccess{};
  if (launch_.send_in_place) {
    const auto here = [](const std::byte* buffer, const schedule::Strided* strided) {
      return strided == nullptr ? RemoteAccess{ring::SlotKind::pointer, 0, reinterpret_cast<std::uint64_t>(buffer)}
                                : RemoteAccess{};
    };
    input_here_ = here(launch_.input, launch_.input_strided);
    output_here_ = here(launch_.output, launch_.output_strided);
  }
  for (auto& state : states_) {
    for (auto& lane : state.lanes) lane = LaneState{};
    state.finished = false;
    state.fault = Fault{};
    state.done = false;
    state.streamed = false;
    state.referred = false;
    state.expects = false;
  }
}

Run::Progress Run::Advance(std::size_t first, std::size_t stride) {
  if (passes_) return pass_->Advance();
  const auto channels = plan_.channels();
  bool moved = false, done = true;
  for (std::size_t c = first; c < channels.size(); c += stride) {
    const auto progress = AdvanceChannel(states_[c], channels[c]);
    if (progress == Progress::faulted) return progress;
    moved = moved || progress == Progress::moved;
    done = done && progress == Progress::done;
  }
  return done ? Progress::done : moved ? Progress::moved : Progress::blocked;
}

const Fault& Run::fault(std::size_t first, std::size_t stride) const {
  if (passes_) return pass_->fault();
  for (std::size_t c = first; c < states_.size(); c += stride) {
    if (states_[c].fault.kind != Fault::Kind::none) return states_[c].fault;
  }
  return states_[first].fault;
}

Traffic Run::traffic(std::size_t channel) const {
  auto traffic = states_[channel].traffic;
  if (pass_) traffic.Add(1, pass_->traffic());
  return traffic;
}

Run::Progress Run::AdvanceChannel(ChannelState& state, const BoundChannel& bound) {
  if (state.done) return Progress::done;
  // A sleeper that looks again before it sleeps must not take a fault for an end.
  if (state.fault.kind != Fault::Kind::none) return Progress::faulted;
  // One chunk of each lane at a time: one lane's step often lets another lane of this rank go on, or another run of its
  // group. A message that took all that has come would leave its peer without this rank's own chunks meanwhile.
  bool moved = false;
  if (!state.finished) {
    state.finished = true;
    for (std::size_t l = 0; l < state.lanes.size(); ++l) {
      auto& lane = state.lanes[l];
      const auto outcome = AdvanceLane(state, bound, lane, bound.lanes[l]);
      if (outcome == Progress::faulted) return outcome;
      moved = moved || outcome == Progress::moved;
      state.finished = state.finished && lane.chunk >= bound.lanes[l].chunks;
    }
  }
  const auto waiting = moved ? Progress::moved : Progress::blocked;
  if (!state.finished) return waiting;
  // Results that bypass the caches must be in memory before the caller tells another thread of them.
  if (state.streamed) host_kernels::StreamFence();
  state.streamed = false;
  // The caller may reuse its buffers after this, so no rank may still be reading them. And the network must have taken
  // this rank's slots, because the caller may not drive it again soon.
  if (!Drained(bound, state.referred)) return waiting;
  state.done = true;
  return Progress::done;
}

// Runs the lane to the end of its chunk, or until it is blocked. One chunk at a time, because the next lane uses what
// this one has just brought into the cache.
inline Run::Progress Run::AdvanceLane(ChannelState& state, const BoundChannel& channel, LaneState& lane,
                                      const BoundLane& bound) {
  if (lane.blocked_on != nullptr && lane.blocked_on->Look(launch_.tag) == ring::EmptyEnd::State::waiting) {
    return Progress::blocked;
  }
  lane.blocked_on = nullptr;
  bool moved = false;
  while (lane.chunk < bound.chunks) {
    const auto& step = bound.steps[lane.step];
    if (lane.chunk < step.length) {
      const auto outcome = TryStep(state, channel, lane, bound, step);
      if (outcome == Outcome::faulted) return Progress::faulted;
      if (outcome == Outcome::blocked) break;
    }
    moved = true;
    lane.expects = false;
    if (++lane.step == bound.steps.size()) {
      lane.step = 0;
      ++lane.chunk;
      break;
    }
  }
  return moved ? Progress::moved : Progress::blocked;
}

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

// Finds where a slot's data can be read. Data in another process is fetched to `fetch_to`. False: it could not be found.
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
  source = operand.empty->Data(bytes);
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

inline Run::Outcome Run::TryStep(ChannelState& state, const BoundChannel& channel, LaneState& lane,
                                 const BoundLane& bound, const BoundStep& step) {
  for (const auto& after : step.after) {
    const auto& other = state.lanes[static_cast<std::size_t>(after.lane)];
    // A finished lane satisfies every wait for it, even for chunks beyond its own.
    if (other.chunk >= channel.lanes[static_cast<std::size_t>(after.lane)].chunks) continue;
    if (other.chunk < lane.chunk || (other.chunk == lane.chunk && other.step <= after.step)) return Outcome::blocked;
  }
  if (step.lands != nullptr && launch_.receive_in_place && !lane.expects) ExpectSlots(state, lane, bound);
  if (const auto outcome = Ready(state, lane, step); outcome != Outcome::done) return outcome;
  const std::size_t chunk_bytes = plan_.config().chunk_bytes;
  const auto begin = ring::ChunkBegin(lane.chunk, chunk_bytes);
  const auto bytes = ring::ChunkLength(step.bytes, lane.chunk, chunk_bytes);
  return plan_.config().protocol == ring::Protocol::bulk ? Execute<true>(state, step, begin, bytes)
                                                         : Execute<false>(state, step, begin, bytes);
}

// The reach of the memory that the step's slots may refer to; null: they carry the data.
const RemoteAccess* Run::ReferenceFor(const BoundStep& step, std::size_t bytes, const RemoteAccess& input,
                                      const RemoteAccess& output) const {
  if (step.referable == nullptr) return nullptr;
  const bool from_input = step.referable->kind == schedule::OperandKind::input;
  const RemoteAccess& access = from_input ? input : output;
  if (access.kind == ring::SlotKind::value || bytes < access.least) return nullptr;
  if (from_input && launch_.scaled && step.referable->scaled) return nullptr;
  return &access;
}

// The same for a slot that refers to its data. Every process of the host can write into the slot, so only references
// that an honest rank makes are accepted: a pointer where all ranks share a process, else the peer's windows or, where
// the system permits it, the peer's memory.
bool Run::SourceElsewhere(ChannelState& state, const BoundOperand& operand, ring::SlotKind kind, std::size_t bytes,
                          const std::byte*& source, std::byte* fetch_to) {
  const int peer = operand.empty->peer();
  // Only this process's network writes such a slot.
  if (operand.by_network && kind == ring::SlotKind::pointer) {
    state.traffic.received[Traffic::kByNetwork] += bytes;
    source = reinterpret_cast<const std::byte*>(operand.empty->Reference().address);
    return true;
  }
  source = operand.empty->Data();
  state.borrows = true;
  if (bytes == 0) return true;  // no bytes, so the reference does not matter
  const bool may_refer = plan_.config().protocol == ring::Protocol::bulk && !operand.by_network;
  const auto reference = may_refer ? operand.empty->Reference() : ring::SlotReference{};
  source = nullptr;
  if (may_refer && kind == ring::SlotKind::pointer && fabric_.all_same_process()) {
    source = reinterpret_cast<const std::byte*>(reference.address);
  } else if (may_refer && kind == ring::SlotKind::window) {
    source = windows_.Find(peer, reference.window, reference.address, bytes);
  } else if (may_refer && kind == ring::SlotKind::cma && plan_.config().cma && fetch_to != nullptr) {
    source = fabric_.ReadMemory(peer, reference.address, fetch_to, bytes) ? fetch_to : nullptr;
    if (source == nullptr) {
      state.fault = {Fault::Kind::unreachable, peer, 0, 0};
      return false;
    }
  }
  if (source == nullptr) {
    state.fault = {Fault::Kind::forged, peer, 0, static_cast<std::uint64_t>(kind)};
    return false;
  }
  state.traffic.received[static_cast<std::size_t>(kind)] += bytes;
  return true;
}

template <bool kMayRefer>
Run::Outcome Run::Execute(ChannelState& state, const BoundStep& step, std::size_t done, std::size_t bytes) {
  const bool may_refer = kMayRefer && step.fills;
  const RemoteAccess* const local_reference =
      may_refer ? ReferenceFor(step, bytes, launch_.input_access, launch_.output_access) : nullptr;
  const RemoteAccess* const network_reference =
      may_refer ? ReferenceFor(step, bytes, input_here_, output_here_) : nullptr;
  const auto reference_of = [&](const BoundOperand& write) {
    return write.by_network ? network_reference : local_reference;
  };

  Move move;
  state.borrows = false;
  bool strided = false;  // some operand that was bound so far is strided
  for (const auto& write : step.writes) {
    if (write.is_slot) {
      if (reference_of(write) != nullptr) continue;
      move.written[move.destination_count] = &write;
      move.destinations[move.destination_count++] = write.fill->Data(bytes);
      continue;
    }
    strided = strided || StridedOf(write) != nullptr;
    // A block that peers will read right away had better be in the cache.
    const bool read_soon = local_reference != nullptr || network_reference != nullptr;
    if (launch_.stream_output && write.kind == schedule::OperandKind::output && !read_soon) {
      move.streamed |= 1U << move.destination_count;
    }
    move.written[move.destination_count] = &write;
    move.destinations[move.destination_count++] = Memory(state, write, done);
  }

  for (const auto& read : step.reads) {
    const std::byte* source = nullptr;
    // A single source is fetched straight to its destination, if that is one piece. Null: it cannot be fetched.
    auto* const fetch_to = !kMayRefer        ? nullptr
                           : step.arithmetic ? state.fetched.data() + static_cast<std::size_t>(move.source_count) *
                                                                          plan_.config().chunk_bytes
                           : move.destination_count > 0 && !strided ? static_cast<std::byte*>(move.destinations[0])
                                                                    : nullptr;
    if (!Source(state, read, done, bytes, source, fetch_to)) return Outcome::faulted;
    strided = strided || StridedOf(read) != nullptr;
    if (launch_.scaled && read.scaled) move.scaled |= std::uint64_t{1} << move.source_count;
    move.sources[move.source_count++] = source;
  }

  move.divisor = step.final ? plan_.divisor() : 0;
  move.reduces = step.arithmetic || move.scaled != 0 || move.divisor > 1;
  if (strided) {
    MoveStrided(step, move, done, bytes);
  } else {
    MoveBytes(move, bytes);
  }
  state.streamed = state.streamed || move.streamed != 0;
  // Before anything is passed on.
  if (kMayRefer && state.borrows && Recalled(state, step)) return Outcome::faulted;

  if (step.fills) {
    // An earlier step of this channel may have streamed the block that a slot refers to. A flag's release does not
    // order non-temporal stores, and a reader that sees the flag (a peer, or another thread that drives the network)
    // reads the block at once. A slot that carries its data needs no fence: slots are never streamed into.
    if (state.streamed && (local_reference != nullptr || network_reference != nullptr)) [[unlikely]] {
      host_kernels::StreamFence();
      state.streamed = false;
    }
    for (const auto& write : step.writes) {
      if (!write.is_slot) continue;
      const auto* const reference = reference_of(write);
      const auto kind = reference == nullptr ? ring::SlotKind::value : reference->kind;
      if (reference != nullptr) {
        auto& header = write.fill->Header();
        header.window = reference->window;
        header.address = reference->base + step.referable->offset + done;
        state.referred = true;
      }
      Publish(state, write, kind, bytes);
    }
  }
  for (const auto& read : step.reads) {
    if (read.is_slot) read.empty->Release();
  }
  WakeSleepers(fabric_);
  return Outcome::done;
}

// Whether a peer has taken back what the step has just read.
bool Run::Recalled(ChannelState& state, const BoundStep& step) const {
  for (const auto& read : step.reads) {
    if (!read.is_slot || !read.empty->Recalled()) continue;
    state.fault = {Fault::Kind::recalled, read.empty->peer(), 0, 0};
    return true;
  }
  return false;
}

void Run::MoveBytes(const Move& move, std::size_t bytes) const {
  if (move.reduces) {
    plan_.reduce()({.sources = move.sources.data(),
                    .source_count = move.source_count,
                    .destinations = move.destinations.data(),
                    .destination_count = move.destination_count,
                    .count = bytes / SizeOf(plan_.type()),
                    .streamed = move.streamed,
                    .scaled = move.scaled,
                    .scalar = launch_.scalar,
                    .divisor = move.divisor});
    return;
  }
  for (int d = 0; d < move.destination_count; ++d) {
    if (move.destinations[d] == move.sources[0]) continue;
    host_kernels::CopyBytes(move.destinations[d], move.sources[0], bytes, (move.streamed >> d & 1) != 0);
  }
}

void Run::Recall() {
  if (passes_) return;  // its slots carry their data
  bool lent = false;
  for (std::size_t c = 0; c < states_.size(); ++c) {
    lent = lent || states_[c].referred || states_[c].expects;
    if (!states_[c].referred) continue;
    for (const auto& lane : plan_.channels()[c].lanes) {
      for (auto* fill : lane.fills) fill->Recall();
    }
  }
  if (network_ != nullptr && lent) network_->Recall();
}

// Whether the slots that this rank filled are drained: all, or those that the network takes.
bool Run::Drained(const BoundChannel& channel, bool all) const {
  for (const auto& lane : channel.lanes) {
    for (auto* fill : lane.fills) {
      if ((all || fill->by_network()) && !fill->Drained()) return false;
    }
  }
  return true;
}

std::vector<int> Run::WaitsFor(std::size_t first, std::size_t stride) const {
  std::vector<int> ranks;
  for (std::size_t channel = first; channel < states_.size(); channel += stride) AddWaits(channel, ranks);
  return ranks;
}

void Run::AddWaits(std::size_t channel, std::vector<int>& ranks) const {
  const auto& state = states_[channel];
  const auto& lanes = plan_.channels()[channel].lanes;
  const auto tag = passes_ ? pass_->tag() : launch_.tag;
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    const std::size_t step = passes_ ? pass_->position() : state.lanes[l].step;
    const bool done = passes_ ? step == lanes[l].steps.size() : state.lanes[l].chunk >= lanes[l].chunks;
    if (done) {
      // The lane is done. The network may not have taken its slots yet, nor readers what the slots refer to.
      for (const auto& sent : lanes[l].steps) {
        for (const auto& write : sent.writes) {
          if (write.fill == nullptr || write.peer < 0 || !(state.referred || write.by_network)) continue;
          if (!write.fill->Drained()) ranks.push_back(write.peer);
        }
      }
      continue;
    }
    for (const auto& read : lanes[l].steps[step].reads) {
      if (read.is_slot && read.empty->Look(tag) != ring::EmptyEnd::State::ready) ranks.push_back(read.empty->peer());
    }
    for (const auto& write : lanes[l].steps[step].writes) {
      if (write.fill != nullptr && write.peer >= 0 && !write.fill->HasRoom()) ranks.push_back(write.peer);
    }
  }
}

}  // namespace tutti::host
