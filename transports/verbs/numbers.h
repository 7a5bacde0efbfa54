// How the verbs wire identifies slots: a write's completion brings only 32 bits of immediate data at the receiver, and
// only 64 bits of our own at the sender.
//
// Thread-safety: pure functions and value types.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::verbs {

// The immediate of a slot: its connection, and the low bits of its number. At most a ring's depth of a connection's
// slots are on the way, so the low bits determine the whole number.
inline constexpr int kImmediateNumberBits = 22;
inline constexpr std::uint32_t kMostVerbsConnections = std::uint32_t{1} << (32 - kImmediateNumberBits);

constexpr std::uint32_t SlotImmediate(std::uint32_t connection, std::uint32_t number) {
  constexpr std::uint32_t kLow = (std::uint32_t{1} << kImmediateNumberBits) - 1;
  return connection << kImmediateNumberBits | (number & kLow);
}
constexpr std::uint32_t ImmediateConnection(std::uint32_t immediate) { return immediate >> kImmediateNumberBits; }
// The number nearest to `near` that ends in the immediate's low bits.
constexpr std::uint32_t ImmediateNumber(std::uint32_t immediate, std::uint32_t near) {
  // The difference's low bits, at the top of a word: shifting them down again extends their sign.
  const std::uint32_t difference = (immediate - near) << (32 - kImmediateNumberBits);
  return near + static_cast<std::uint32_t>(static_cast<std::int32_t>(difference) >> (32 - kImmediateNumberBits));
}

// The immediate of a part of a short message.
struct PartImmediate {
  bool last = false;  // of its message
  bool own = false;   // the message is the transport's own, not the engine's

  constexpr std::uint32_t Bits() const { return (last ? 1U : 0U) | (own ? 2U : 0U); }
  static constexpr PartImmediate From(std::uint32_t bits) { return {(bits & 1) != 0, (bits & 2) != 0}; }
};

// Identifies a work request.
struct WorkId {
  enum class Kind : std::uint8_t { receive, part, slot, data };

  Kind kind = Kind::receive;
  bool told = false;             // slots: Sent() has been called, because the data went with the request
  std::uint32_t rank = 0;        // of the peer, at most kMostRanks - 1
  std::uint32_t connection = 0;  // slots, and data of slots that go by themselves: below kMostVerbsConnections
  std::uint32_t number = 0;      // of the slot, or of the buffer

  static constexpr std::uint32_t kMostRanks = 1 << 18;

  constexpr std::uint64_t Bits() const {
    return std::uint64_t{number} | std::uint64_t{connection} << 32 | std::uint64_t{rank} << 42 |
           static_cast<std::uint64_t>(kind) << 60 | std::uint64_t{told} << 62;
  }
  static constexpr WorkId From(std::uint64_t bits) {
    return {static_cast<Kind>(bits >> 60 & 3), (bits >> 62 & 1) != 0,
            static_cast<std::uint32_t>(bits >> 42 & (kMostRanks - 1)),
            static_cast<std::uint32_t>(bits >> 32 & (kMostVerbsConnections - 1)), static_cast<std::uint32_t>(bits)};
  }
  friend constexpr bool operator==(const WorkId&, const WorkId&) = default;
};

// Information for the receiver that is not in the immediate, in the slot's own memory before its data. It takes the
// place of the last 8 bytes of the slot's header, which no thread reads while the slot travels. The flag precedes it
// and never travels: the receiver sets it after the completion, because the bytes of one write may become visible in
// any order.
//
// Where the receiver's data lie apart, a write takes them there first, and a second one on the same queue pair the prefix, with
// the immediate. A reliable queue pair executes requests in order, and the second one's completion at the receiver says
// that the first one's bytes have been placed, too (InfiniBand's transaction ordering: a completion with immediate
// data vouches for all earlier writes). A GPU that may still not see them is not written to (DirectMemory::WhyNot).
struct SlotPrefix {
  std::uint32_t tag;
  std::uint32_t bytes;
};
static_assert(sizeof(SlotPrefix) == 8);

}  // namespace tutti::verbs
