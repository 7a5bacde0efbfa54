// Messages over a side channel, as bytes and back. A decoder gives nullopt for what no encoder would have made; it never
// throws and never trusts a count.
//
// Thread-safety: pure functions and value types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace tutti::side {

// For the peer of the transport at hand, which alone knows what it says: how to reach this rank, for example.
struct Own {
  std::vector<std::byte> bytes;

  friend bool operator==(const Own&, const Own&) = default;
};
// The sender is about to close its other means. It has sent `sent` slots and short messages, and accepts no more.
struct Leaving {
  std::uint64_t sent = 0;

  friend bool operator==(const Leaving&, const Leaving&) = default;
};
// All that the receiver of this has announced by a Leaving has arrived; or its GaveUp has.
struct Heard {
  friend bool operator==(const Heard&, const Heard&) = default;
};
// A short message that does not go by the other means, and how many the sender has sent before it (Peer::Forward()).
struct Forwarded {
  std::uint32_t before = 0;
  std::vector<std::byte> message;

  friend bool operator==(const Forwarded&, const Forwarded&) = default;
};
// The sender cannot reach the receiver, or no longer can.
struct GaveUp {
  static constexpr std::size_t kLongestWhy = 512;

  std::string why;

  friend bool operator==(const GaveUp&, const GaveUp&) = default;
};

using Message = std::variant<Own, Leaving, Heard, Forwarded, GaveUp>;

std::vector<std::byte> Encode(const Message& message);
std::optional<Message> Decode(std::span<const std::byte> bytes);

}  // namespace tutti::side
