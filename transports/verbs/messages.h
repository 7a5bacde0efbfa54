// Messages of the verbs transports' own, as bytes and back. Those about the way to a peer travel over the side channel,
// which has proven the job's secret; those about rings go over the queue pair. A decoder gives nullopt for what no
// encoder would have made; it never throws and never trusts a count.
//
// Thread-safety: pure functions and value types.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace tutti::verbs {

// The most ports that a rank uses side by side.
inline constexpr std::size_t kMostRails = 4;

using Gid = std::array<std::byte, 16>;

// One end of a queue pair.
struct QueuePlace {
  std::uint32_t number = 0;  // of the queue pair
  std::uint32_t packet = 0;  // the sequence number of the first packet that it will send
  std::uint16_t lid = 0;     // InfiniBand
  std::uint8_t mtu = 0;      // enum ibv_mtu
  std::uint8_t kind = 0;     // enum GidKind
  Gid gid = {};

  friend bool operator==(const QueuePlace&, const QueuePlace&) = default;
};

// The sender's ends of its queue pairs to the receiver, by rail.
struct VerbsGreeting {
  std::vector<QueuePlace> queues;

  friend bool operator==(const VerbsGreeting&, const VerbsGreeting&) = default;
};
// The sender has connected its ends: what is sent to them from now on arrives.
struct VerbsReady {
  friend bool operator==(const VerbsReady&, const VerbsReady&) = default;
};
// The sender has slots for the receiver's ring of this connection, and needs the ring's place.
struct RingWanted {
  std::uint32_t connection = 0;

  friend bool operator==(const RingWanted&, const RingWanted&) = default;
};
// Where a part of every slot goes: the first slot's, the bytes from slot to slot, and the memory's keys by rail.
struct PartsPlace {
  std::uint64_t address = 0;
  std::uint32_t stride = 0;
  std::vector<std::uint32_t> keys;

  friend bool operator==(const PartsPlace&, const PartsPlace&) = default;
};
// The answer to RingWanted: the ring's place.
struct RingPlace {
  std::uint32_t connection = 0;
  PartsPlace prefixes;
  std::optional<PartsPlace> data;  // none: behind the prefixes

  friend bool operator==(const RingPlace&, const RingPlace&) = default;
};

using VerbsMessage = std::variant<VerbsGreeting, VerbsReady, RingWanted, RingPlace>;

std::vector<std::byte> Encode(const VerbsMessage& message);
std::optional<VerbsMessage> DecodeVerbsMessage(std::span<const std::byte> bytes);

}  // namespace tutti::verbs
