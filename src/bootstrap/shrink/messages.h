// The messages between ranks at an agreement (membership_agreement.h) in frames, encoded and decoded. As in
// join_messages.h, a decoder gives nullopt for anything that no encoder of this version makes.
//
// Thread-safety: pure functions and value types.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::shrink {

// A caller's first message: its presence and its knowledge of the others.
struct Presence {
  bool leads = false;         // otherwise the callee should lead
  std::vector<int> excluded;  // by the user of this rank
  std::vector<int> ended;     // ranks whose processes are known to have ended

  friend bool operator==(const Presence&, const Presence&) = default;
};
// The callee's answer to a Presence, unless it merely records it: the rank that the callee follows, perhaps itself.
struct Following {
  int leader = 0;

  friend bool operator==(const Following&, const Following&) = default;
};
// The leader to its followers: the members that continue and where they meet, or the reason why none do.
struct Decision {
  tuttiResult_t code = tuttiSuccess;
  std::string message;
  // On success:
  std::vector<int> members;  // ascending
  tuttiUniqueId id{};
};

// Leader and followers to each other, once they are one communicator: my later departure does not affect you.
struct Joined {};

std::vector<std::byte> Encode(const Presence& message);
std::vector<std::byte> Encode(const Following& message);
std::vector<std::byte> Encode(const Decision& message);
std::vector<std::byte> Encode(const Joined& message);

std::optional<Presence> DecodePresence(std::span<const std::byte> payload);
std::optional<Following> DecodeFollowing(std::span<const std::byte> payload);
std::optional<Decision> DecodeDecision(std::span<const std::byte> payload);
std::optional<Joined> DecodeJoined(std::span<const std::byte> payload);

}  // namespace tutti::shrink
