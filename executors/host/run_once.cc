// Runs of plans of one pass (Plan::one_pass): one lane, every step once, and slots that carry their data. Most small
// messages are such runs, so every instruction here counts.
#include "base/numbers/datatype.h"
#include "executors/host/doorbell.h"
#include "executors/host/kernels/copy.h"
#include "executors/host/run-inl.h"

namespace tutti::host {

void Run::StartAgain(const std::byte* input, std::byte* output, std::uint32_t tag) {
  launch_.input = input;
  launch_.output = output;
  launch_.tag = tag;
  auto& state = states_.front();
  state.lanes.front() = LaneState{};
  state.done = false;
}

Run::Progress Run::AdvanceOnce() {
  auto& state = states_.front();
  if (state.done) return Progress::done;
  // A sleeper that looks again before it sleeps must not take a fault for an end.
  if (state.fault.kind != Fault::Kind::none) return Progress::faulted;
  auto& lane = state.lanes.front();
  if (lane.blocked_on != nullptr) {
    if (lane.blocked_on->Look(launch_.tag) == ring::EmptyEnd::State::waiting) return Progress::blocked;
    lane.blocked_on = nullptr;
  }
  const auto& channel = plan_.channels().front();
  const auto& bound = channel.lanes.front();
  bool moved = false;
  for (; lane.chunk < bound.chunks; moved = true) {
    const auto& step = bound.steps[lane.step];
    if (step.length != 0) {
      auto outcome = Ready(state, lane, step);
      if (outcome == Outcome::done) outcome = ExecuteOnce(state, step);
      if (outcome == Outcome::faulted) return Progress::faulted;
      if (outcome == Outcome::blocked) return moved ? Progress::moved : Progress::blocked;
    }
    if (++lane.step == bound.steps.size()) {
      lane.step = 0;
      ++lane.chunk;
    }
  }
  // Results of strided steps may bypass the caches: see AdvanceChannel.
  if (state.streamed) [[unlikely]] {
    host_kernels::StreamFence();
    state.streamed = false;
  }
  // The network must have taken this rank's slots, because the caller may not drive it again soon.
  if (fabric_.network() != nullptr && !Drained(channel, false)) return moved ? Progress::moved : Progress::blocked;
  state.done = true;
  return Progress::done;
}

Run::Outcome Run::ExecuteOnce(ChannelState& state, const BoundStep& step) {
  const std::size_t bytes = step.bytes;
  if (launch_.input_strided != nullptr || launch_.output_strided != nullptr) [[unlikely]] {
    return Execute<false>(state, step, 0, bytes);
  }
  std::array<const void*, host_kernels::kMaxReduceSources> sources;
  int source_count = 0;
  std::uint64_t scaled = 0;
  for (const auto& read : step.reads) {
    const std::byte* source = nullptr;
    if (!Source(state, read, 0, bytes, source, nullptr)) return Outcome::faulted;
    if (launch_.scaled && read.scaled) scaled |= std::uint64_t{1} << source_count;
    sources[source_count++] = source;
  }
  const auto destination_of = [&](const BoundOperand& write) -> void* {
    return write.is_slot ? write.fill->Data() : Memory(state, write, 0);
  };
  const int divisor = step.final ? plan_.divisor() : 0;
  if (!step.arithmetic && scaled == 0 && divisor <= 1) {
    for (const auto& write : step.writes) {
      void* const destination = destination_of(write);
      if (destination != sources[0]) host_kernels::CopyBytes(destination, sources[0], bytes, false);
    }
  } else {
    std::array<void*, host_kernels::kMaxReduceDestinations> destinations;
    int destination_count = 0;
    for (const auto& write : step.writes) destinations[destination_count++] = destination_of(write);
    plan_.reduce()({.sources = sources.data(),
                    .source_count = source_count,
                    .destinations = destinations.data(),
                    .destination_count = destination_count,
                    .count = bytes / SizeOf(plan_.type()),
                    .streamed = 0,
                    .scaled = scaled,
                    .scalar = launch_.scalar,
                    .divisor = divisor});
  }
  for (const auto& write : step.writes) {
    if (write.is_slot) Publish(state, write, ring::SlotKind::value, bytes);
  }
  for (const auto& read : step.reads) {
    if (read.is_slot) read.empty->Release();
  }
  if (step.uses_slots) WakeSleepers(fabric_);
  return Outcome::done;
}

}  // namespace tutti::host
