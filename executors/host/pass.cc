#include "executors/host/pass.h"

#include <algorithm>

#include "base/numbers/datatype.h"

namespace tutti::host {
namespace {

static_assert(static_cast<int>(schedule::OperandKind::input) == 0 &&
                  static_cast<int>(schedule::OperandKind::output) == 1 &&
                  static_cast<int>(schedule::OperandKind::scratch) == 2,
              "Pass::memory_ is indexed by them");

}  // namespace

Pass::Pass(const Plan& plan, shm::Fabric& fabric)
    : steps_(plan.channels().front().lanes.front().steps),
      at_(steps_.data() + steps_.size()),
      crosses_hosts_(std::ranges::any_of(plan.channels().front().lanes.front().fills,
                                         [](const ring::FillEnd* fill) { return fill->by_network(); })),
      sleepers_(fabric.sleepers()),
      plan_(plan),
      fabric_(fabric),
      scratch_(plan.scratch_bytes()) {}

[[gnu::hot]] Progress Pass::Advance() {
  // A sleeper that looks again before it sleeps must not take a fault for an end.
  if (fault_.kind != Fault::Kind::none) [[unlikely]]
    return Progress::faulted;
  if (blocked_on_ != nullptr) {
    if (blocked_on_->Look(tag_) == ring::EmptyEnd::State::waiting) return Progress::blocked;
    blocked_on_ = nullptr;
  }
  const auto* const end = steps_.data() + steps_.size();
  auto progress = Progress::done;
  bool moved = false;
  for (; at_ != end; ++at_, moved = true) {
    progress = Ready(*at_);
    if (progress != Progress::done) break;
    const bool honest = at_->arithmetic || (at_->final && plan_.divisor() > 1) ? Reduce(*at_) : Copy(*at_);
    if (!honest) [[unlikely]]
      return Progress::faulted;
  }
  if (moved) {
    if (at_ == end) ++passes_;
    // Once, after all of this call's steps: nothing here waits for another rank in between.
    WakeSleepers(fabric_, sleepers_);
  }
  if (progress == Progress::faulted) [[unlikely]]
    return progress;
  // The network must have taken this rank's slots, because the caller may not drive it again soon.
  if (progress == Progress::done && (!crosses_hosts_ || NetworkHasAll())) return Progress::done;
  return moved ? Progress::moved : Progress::blocked;
}

inline Progress Pass::Ready(const BoundStep& step) {
  for (; ready_reads_ < step.reads.size(); ++ready_reads_) {
    const auto* const empty = step.reads[ready_reads_].empty;
    if (empty == nullptr) continue;
    const auto look = empty->Look(tag_);
    if (look == ring::EmptyEnd::State::ready) [[likely]]
      continue;
    if (look == ring::EmptyEnd::State::foreign) [[unlikely]] {
      fault_ = {Fault::Kind::foreign, empty->peer(), 0, 0};
      return Progress::faulted;
    }
    blocked_on_ = empty;
    return Progress::blocked;
  }
  if (step.fills) {
    for (const auto& write : step.writes) {
      if (write.fill != nullptr && !write.fill->HasRoom()) [[unlikely]]
        return Progress::blocked;
    }
  }
  ready_reads_ = 0;
  return Progress::done;
}

inline bool Pass::Copy(const BoundStep& step) {
  const auto& read = step.reads.front();
  const std::size_t bytes = step.bytes;
  const std::byte* const source = read.is_slot ? Taken(read, bytes) : Memory(read);
  if (source == nullptr && read.is_slot) [[unlikely]]
    return false;
  for (const auto& write : step.writes) {
    std::byte* const destination = write.is_slot ? write.fill->Data() : Memory(write);
    if (destination != source) host_kernels::CopyBytes(destination, source, bytes, false);
    if (write.is_slot) Publish(*write.fill, bytes);
  }
  if (read.is_slot) read.empty->Release();
  return true;
}

[[gnu::hot]] bool Pass::Reduce(const BoundStep& step) {
  std::array<const void*, host_kernels::kMaxReduceSources> sources;
  std::array<void*, host_kernels::kMaxReduceDestinations> destinations;
  int source_count = 0, destination_count = 0;
  for (const auto& read : step.reads) {
    const std::byte* const source = read.is_slot ? Taken(read, step.bytes) : Memory(read);
    if (source == nullptr && read.is_slot) [[unlikely]]
      return false;
    sources[source_count++] = source;
  }
  for (const auto& write : step.writes) {
    destinations[destination_count++] = write.is_slot ? write.fill->Data() : Memory(write);
  }
  plan_.reduce()({.sources = sources.data(),
                  .source_count = source_count,
                  .destinations = destinations.data(),
                  .destination_count = destination_count,
                  .count = step.bytes / SizeOf(plan_.type()),
                  .scalar = {},
                  .divisor = step.final ? plan_.divisor() : 0});
  for (const auto& write : step.writes) {
    if (write.is_slot) Publish(*write.fill, step.bytes);
  }
  for (const auto& read : step.reads) {
    if (read.is_slot) read.empty->Release();
  }
  return true;
}

[[gnu::cold]] void Pass::Refuse(const BoundOperand& slot, std::size_t bytes, const ring::SlotContent& content) {
  const int peer = slot.empty->peer();
  fault_ = content.bytes != bytes ? Fault{Fault::Kind::length, peer, bytes, content.bytes}
                                  : Fault{Fault::Kind::forged, peer, 0, static_cast<std::uint64_t>(content.kind)};
}

bool Pass::NetworkHasAll() const {
  return std::ranges::all_of(plan_.channels().front().lanes.front().fills,
                             [](ring::FillEnd* fill) { return !fill->by_network() || fill->Drained(); });
}

Traffic Pass::traffic() const {
  Traffic each, all;
  for (const auto& step : steps_) {
    for (const auto& write : step.writes) {
      if (write.is_slot) each.sent[Traffic::IndexOf(write, ring::SlotKind::value)] += step.bytes;
    }
    for (const auto& read : step.reads) {
      if (read.is_slot) each.received[Traffic::IndexOf(read, ring::SlotKind::value)] += step.bytes;
    }
  }
  all.Add(passes_, each);
  return all;
}

}  // namespace tutti::host
