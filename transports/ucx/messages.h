// Messages between UCX transports. Over the side channel, whose connections have proven the job's secret: how they
// reach each other. Through UCX: slots and short messages, after a header. A decoder gives nullopt for what no encoder
// would have made; it never throws and never trusts a count.
//
// Thread-safety: pure functions and value types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "transports/progress/network_transport.h"

namespace tutti::ucx {

// Precedes everything that goes through UCX. Ranks have the same byte order.
struct UcxHeader {
  static constexpr std::uint32_t kShortMessage = ~std::uint32_t{0};

  std::uint64_t token;       // that the receiver has given the sender
  std::uint32_t sender;      // its rank
  std::uint32_t before;      // short messages that the sender has sent the receiver before this
  std::uint32_t connection;  // kShortMessage: what follows is one, and the rest is 0
  std::uint32_t number;
  std::uint32_t tag;
  std::uint32_t bytes;

  progress::SlotMessage slot() const { return {connection, number, tag, bytes}; }
};
static_assert(sizeof(UcxHeader) == 32);

// A part of the address of the sender's worker, in order. Messages sent there carry the token.
struct UcxGreeting {
  static constexpr std::size_t kMostPart = progress::kMaxControlBytes - 64;
  static constexpr std::uint32_t kMostAddress = 256 * 1024;

  std::uint64_t token = 0;
  std::uint32_t bytes = 0;  // of the whole address
  std::vector<std::byte> part;

  friend bool operator==(const UcxGreeting&, const UcxGreeting&) = default;
};

std::vector<std::byte> Encode(const UcxGreeting& greeting);
std::optional<UcxGreeting> DecodeUcxGreeting(std::span<const std::byte> bytes);

// Parts of the address, which a receiver puts together again.
std::vector<UcxGreeting> GreetingsOf(std::uint64_t token, std::span<const std::byte> address);

}  // namespace tutti::ucx
