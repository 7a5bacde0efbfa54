// Messages that all transports exchange over their side channels, as bytes and back. Each transport also has its own
// messages; a first byte, written before these, distinguishes them.
//
// Thread-safety: pure functions and value types.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "net/wire.h"

namespace tutti::tcp {

// The sender cannot reach the receiver, or no longer can.
struct GaveUp {
  static constexpr std::size_t kLongestWhy = 512;

  std::string why;

  void Write(net::ByteWriter& writer) const { writer.Text(why, kLongestWhy); }
  static GaveUp Read(net::ByteReader& reader) { return {reader.Text(kLongestWhy)}; }

  friend bool operator==(const GaveUp&, const GaveUp&) = default;
};

// An engine's last message to a peer that it has reached only over the side channel.
struct Forwarded {
  std::vector<std::byte> message;

  void Write(net::ByteWriter& writer) const { writer.Bytes(message); }
  static Forwarded Read(net::ByteReader& reader) {
    const auto rest = reader.Rest();
    return {{rest.begin(), rest.end()}};
  }

  friend bool operator==(const Forwarded&, const Forwarded&) = default;
};

}  // namespace tutti::tcp
