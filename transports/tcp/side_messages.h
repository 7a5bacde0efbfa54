// What carriers say to each other over their side channels whatever else they use, as bytes and back: each has its own
// messages besides, and tells them apart by a first byte that is written before these.
//
// Thread-safety: pure functions and value types.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "net/wire.h"

namespace tutti {

// The sender cannot reach the receiver, or not any more.
struct GaveUp {
  static constexpr std::size_t kLongestWhy = 512;

  std::string why;

  void Write(ByteWriter& writer) const { writer.Text(why, kLongestWhy); }
  static GaveUp Read(ByteReader& reader) { return {reader.Text(kLongestWhy)}; }

  friend bool operator==(const GaveUp&, const GaveUp&) = default;
};

// An engine's last message to a peer that it never reached but over the side channel.
struct Forwarded {
  std::vector<std::byte> message;

  void Write(ByteWriter& writer) const { writer.Bytes(message); }
  static Forwarded Read(ByteReader& reader) {
    const auto rest = reader.Rest();
    return {{rest.begin(), rest.end()}};
  }

  friend bool operator==(const Forwarded&, const Forwarded&) = default;
};

}  // namespace tutti
