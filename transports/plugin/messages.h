// Messages between transports over a plug-in. Over the side channel, whose connections have proven the job's secret: how
// they reach each other. Through the plug-in: a header, then a short message or the data of a short
// slot. A decoder gives nullopt for what no encoder would have made; it never throws and never trusts a count.
//
// Thread-safety: pure functions and value types.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "transports/plugin/abi.h"
#include "transports/progress/network_transport.h"

namespace tutti::plugin {

// Each pair of ranks has two connections each way. On one go all messages: each fits into a buffer that its receiver has
// offered before it knows what will come. On the other goes the data of long slots, straight into place: their headers,
// which go as messages, tell the receiver where.
enum class Line : std::uint8_t { messages, data };
inline constexpr std::size_t kLines = 2;
inline constexpr int kConnectionsToAPeer = 2 * static_cast<int>(kLines);  // that a rank has a part in

// After a hello and before the ends come the others. A rank that is done sends as many ends as the receiver has buffers, so
// that none of these still waits when the connection is closed: some plug-ins lose all connections of a process if one is
// closed before its requests are done.
enum class Kind : std::uint32_t { hello = 1, short_message, short_slot, long_slot, end };

// Begins every message. Ranks have the same byte order.
struct Header {
  std::uint64_t token;  // that the receiver has given the sender
  Kind kind;
  std::uint32_t connection;  // of a slot; else 0, as are number and tag
  std::uint32_t number;
  std::uint32_t tag;
  std::uint32_t bytes;  // of the slot or the short message
  std::uint32_t unused;

  progress::SlotMessage slot() const { return {connection, number, tag, bytes}; }
};
static_assert(sizeof(Header) == 32);

// A message, with its header, is at most a page long. A longer slot goes as data.
inline constexpr std::size_t kMessageBytes = 4096;
inline constexpr std::size_t kMostPayload = kMessageBytes - sizeof(Header);
static_assert(progress::kMaxControlBytes <= kMostPayload);
// Data goes in pieces: version 8 counts bytes in an int, and a device may have a limit of its own.
inline constexpr std::size_t kMostPiece = std::size_t{1} << 30;

using Handle = std::array<std::byte, abi::kHandleBytes>;

// Where the sender of this listens for the receiver's two connections.
struct Greeting {
  std::uint64_t token = 0;  // that their messages must carry
  std::uint64_t piece = 0;  // the most bytes of data at a time; the lower value of both sides applies
  std::array<Handle, kLines> handles{};

  friend bool operator==(const Greeting&, const Greeting&) = default;
};

std::vector<std::byte> Encode(const Greeting& greeting);
std::optional<Greeting> DecodeGreeting(std::span<const std::byte> bytes);

}  // namespace tutti::plugin
