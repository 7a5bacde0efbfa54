#include "transports/progress/network_rings.h"

#include <bit>
#include <new>

namespace tutti::progress {

SlotMessage OutgoingRing::Take(std::uint32_t connection, const std::byte*& data) {
  const ring::SlotHeader& header = Next();
  const auto tag = static_cast<std::uint32_t>(header.flag.load(std::memory_order_relaxed) >> 32);
  data = header.kind == ring::SlotKind::pointer ? reinterpret_cast<const std::byte*>(header.address)
                                                : memory_.Data(taken_);
  window_.Note(++taken_, header.bytes);
  return {connection, taken_, tag, header.bytes};
}

void OutgoingRing::Sent(std::uint32_t number) {
  // Slots on several streams complete in any order; the filler is told only of runs.
  sent_beyond_ |= std::uint64_t{1} << (number - sent_ - 1);
  const int run = std::countr_one(sent_beyond_);
  sent_beyond_ = run == 64 ? 0 : sent_beyond_ >> run;
  sent_ += static_cast<std::uint32_t>(run);
  head_->store(sent_, std::memory_order_release);
}

bool OutgoingRing::Lends() const {
  for (std::uint32_t count = sent_; count != taken_; ++count) {
    // sent_beyond_ begins at the slot after sent_, so that slot itself is bit 0.
    const bool sent = (sent_beyond_ >> (count - sent_) & 1) != 0;
    if (!sent && HeaderOf(count).kind == ring::SlotKind::pointer) return true;
  }
  return false;
}

void OutgoingRing::AllSent() {
  if (sent_ == taken_) return;  // also a ring that was never used, whose memory is not to be touched
  sent_ = taken_;
  sent_beyond_ = 0;
  head_->store(sent_, std::memory_order_release);
}

bool OutgoingRing::Acknowledge(std::uint32_t emptied) {
  const std::uint32_t news = emptied - acknowledged_;
  if (static_cast<std::int32_t>(news) < 0) return true;  // overtaken by later news on another stream
  if (news > taken_ - acknowledged_) return false;
  acknowledged_ = emptied;
  return true;
}

void IncomingRing::Expect(const SlotMessage& slot, std::byte* destination) {
  auto& arrival = ArrivalOf(slot.number);
  if (arrival.begun == slot.number) return;
  arrival.expected = slot;
  arrival.destination = destination;
}

void IncomingRing::ForgetExpected() {
  for (auto& arrival : arrivals_) {
    if (!arrival.borrowed) arrival.expected = {};
  }
}

std::byte* IncomingRing::Landing(const SlotMessage& message) const {
  return HasPlace(message.number) && message.bytes <= memory_.shape.capacity ? memory_.Data(message.number - 1)
                                                                             : nullptr;
}

std::byte* IncomingRing::LandingInPlace(const SlotMessage& message) {
  if (Before(message.number) >= window_.credits() || message.bytes > memory_.shape.capacity) return nullptr;
  auto& arrival = ArrivalOf(message.number);
  // No honest peer sends a slot twice. The second one could arrive when the call has its memory back.
  if (arrival.begun == message.number) return nullptr;
  arrival.begun = message.number;
  window_.Note(message.number, message.bytes);
  // The run will refuse another operation's data. They must not overwrite this one's memory.
  arrival.borrowed = arrival.expected == message;
  if (arrival.borrowed) return arrival.at = arrival.destination;
  arrival.at = nullptr;
  if (HasPlace(message.number)) return memory_.Data(message.number - 1);
  return arrival.at = Outside(message.number);
}

std::byte* IncomingRing::Outside(std::uint32_t number) {
  const auto emptied = this->emptied();
  const auto free = std::ranges::find_if(
      outside_, [&](const Buffer& each) { return static_cast<std::int32_t>(emptied - each.number) >= 0; });
  if (free != outside_.end()) {
    free->number = number;
    return free->memory.get();
  }
  std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[memory_.shape.capacity]);
  if (memory == nullptr) return nullptr;
  return outside_.emplace_back(Buffer{.memory = std::move(memory), .number = number}).memory.get();
}

void IncomingRing::Landed(const SlotMessage& message) {
  auto& arrival = ArrivalOf(message.number);
  auto* const at = arrival.begun == message.number ? arrival.at : nullptr;
  arrival.borrowed = false;
  ++landed_;
  if (HasPlace(message.number)) {
    Show(message, at);
  } else {
    kept_.push_back({message, at});
  }
}

void IncomingRing::Show(const SlotMessage& message, std::byte* at) {
  auto& header = *reinterpret_cast<ring::SlotHeader*>(memory_.Header(message.number - 1));
  header.bytes = message.bytes;
  header.kind = ring::SlotKind::value;
  if (at != nullptr) {
    header.kind = ring::SlotKind::pointer;
    header.address = reinterpret_cast<std::uint64_t>(at);
  }
  header.flag.store(ring::SlotFlag(message.number, message.tag), std::memory_order_release);
}

bool IncomingRing::ShowKept() {
  return std::erase_if(kept_, [&](const Kept& each) {
           if (!HasPlace(each.slot.number)) return false;
           Show(each.slot, each.at);
           return true;
         }) > 0;
}

}  // namespace tutti::progress
