// Arrivals from one peer through UCX, in the order that a transport guarantees: no slot and no short message is handed
// on before every short message that was sent ahead of it. UCX promises no order between messages, though most of its
// transports keep one, and some of our messages take another way.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transports/progress/network_transport.h"

namespace tutti::ucx {

class UcxArrivals {
 public:
  UcxArrivals(int peer, progress::NetworkTransportEvents& events) : peer_(peer), events_(events) {}

  // A short message, ahead of which `before` short ones were sent. False: it is malformed.
  bool Message(std::uint32_t before, std::span<const std::byte> bytes);
  // A slot whose data is in its place.
  void Slot(std::uint32_t before, const progress::SlotMessage& slot);
  // Slots and short messages that have been handed on.
  std::uint64_t handed_on() const { return handed_on_; }

 private:
  // More than could arrive early.
  static constexpr std::size_t kMostEarly = 4096;

  struct EarlyMessage {
    std::uint32_t before;
    std::vector<std::byte> bytes;
  };
  struct EarlySlot {
    std::uint32_t before;
    progress::SlotMessage slot;
  };

  // How far it is ahead of its turn; 0: it is its turn. Negative: long past. Counts wrap.
  std::int32_t Early(std::uint32_t before) const { return static_cast<std::int32_t>(before - messages_); }
  bool Take(std::span<const std::byte> bytes);
  void HandOnSlots();

  int peer_;
  progress::NetworkTransportEvents& events_;
  std::uint32_t messages_ = 0;  // short ones handed on
  std::uint64_t handed_on_ = 0;
  std::vector<EarlyMessage> early_messages_;
  std::vector<EarlySlot> early_slots_;
};

}  // namespace tutti::ucx
