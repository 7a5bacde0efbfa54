// What ranks say to each other at a reunion (reunion.h) in frames, as bytes and back. As in join_messages.h, a decoder
// gives nullopt for whatever no encoder of this version would have made.
//
// Thread-safety: pure functions and value types.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti {

// The first thing that whoever calls another says: I am here, and this is what I know.
struct Presence {
  bool leads = false;         // otherwise the one who is called should
  std::vector<int> excluded;  // by this rank's caller
  std::vector<int> ended;     // whose processes are known to have ended

  friend bool operator==(const Presence&, const Presence&) = default;
};
// The answer to it, where the one who is called does not simply note it: whom this rank follows, perhaps itself.
struct Following {
  int leader = 0;

  friend bool operator==(const Following&, const Following&) = default;
};
// The leader to those who follow it: who goes on, and where they meet; or why nobody does.
struct Decision {
  tuttiResult_t code = tuttiSuccess;
  std::string message;
  // On success:
  std::vector<int> members;  // ascending
  tuttiUniqueId id{};
};

// Leader and followers to each other, once they are one communicator: that I go from now on is no loss to you.
struct Joined {};

std::vector<std::byte> Encode(const Presence& message);
std::vector<std::byte> Encode(const Following& message);
std::vector<std::byte> Encode(const Decision& message);
std::vector<std::byte> Encode(const Joined& message);

std::optional<Presence> DecodePresence(std::span<const std::byte> payload);
std::optional<Following> DecodeFollowing(std::span<const std::byte> payload);
std::optional<Decision> DecodeDecision(std::span<const std::byte> payload);
std::optional<Joined> DecodeJoined(std::span<const std::byte> payload);

}  // namespace tutti
