// The short messages between network engines, as bytes and back. A decoder gives nullopt for what no encoder of this
// version would have made; it never throws and never trusts a count.
//
// Thread-safety: pure functions and value types.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "transports/progress/network_transport.h"
#include "transports/ring/control_block.h"

namespace tutti::progress {

// The number of slots of a connection that the sender has emptied so far.
struct Credit {
  std::uint32_t connection;
  std::uint32_t emptied;

  friend bool operator==(const Credit&, const Credit&) = default;
};
// Several in one message; an array, because the data path allocates nothing.
struct Credits {
  static constexpr std::size_t kMost = 32;

  std::size_t count = 0;
  std::array<Credit, kMost> of;  // the first `count` have values

  void Add(const Credit& credit) { of[count++] = credit; }
  std::span<const Credit> all() const { return std::span(of).first(count); }
};

// The sender's state: its newest record (control_block.h), without the time, and its counts and mark of collectives.
struct Status {
  std::uint64_t index = 0;
  ring::RecordedOperation operation;
  std::uint64_t started = 0;
  std::uint64_t completed = 0;
  std::uint64_t mark = 0;
};

// Where the sender makes calls (call_site.h): goes ahead of the first status that names the site.
struct Site {
  std::uint32_t number = 0;
  ring::CallSite site;

  friend bool operator==(const Site&, const Site&) = default;
};

// The sender's communicator has failed.
struct Failed {
  std::uint32_t code = 0;     // tuttiResult_t
  std::uint32_t stopped = 0;  // 1: it was aborted or revoked by the sender
  std::uint64_t completed = 0;
  std::string text;

  friend bool operator==(const Failed&, const Failed&) = default;
};

// The sender has destroyed its communicator: nothing more will come, and nothing is wrong.
struct Leaving {
  std::uint64_t completed = 0;

  friend bool operator==(const Leaving&, const Leaving&) = default;
};

using NetworkMessage = std::variant<Credits, Status, Site, Failed, Leaving>;

// Writes to `bytes`, after clearing it.
void Encode(const NetworkMessage& message, std::vector<std::byte>& bytes);
std::optional<NetworkMessage> DecodeNetworkMessage(std::span<const std::byte> bytes);

}  // namespace tutti::progress
