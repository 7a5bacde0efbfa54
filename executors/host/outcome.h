// The report of a run: its progress, the fault that stopped it, the bytes that it moved.
//
// Thread-safety: values.
#pragma once

#include <array>
#include <cstdint>

#include "executors/host/plan.h"
#include "transports/ring/slot.h"

namespace tutti::host {

enum class Progress : std::uint8_t { blocked, moved, done, faulted };

struct Fault {
  // forged: a slot refers to memory in a way that the peer may not. recalled: the peer's call has failed, and with it the
  // peer has taken back the memory that the slot refers to.
  enum class Kind : std::uint8_t { none, foreign, length, unreachable, forged, recalled };
  Kind kind = Kind::none;
  int peer = -1;
  std::uint64_t expected = 0;  // length: bytes
  std::uint64_t got = 0;       // length: bytes; forged: SlotKind
};

// Payload bytes.
struct Traffic {
  // Indexed by SlotKind - value, pointer, window, cma -, or kByNetwork.
  static constexpr std::size_t kByNetwork = 4;
  std::array<std::uint64_t, 5> sent{};
  std::array<std::uint64_t, 5> received{};

  static std::size_t IndexOf(const BoundOperand& operand, ring::SlotKind kind) {
    return operand.by_network ? kByNetwork : static_cast<std::size_t>(kind);
  }
  // Adds what `times` runs have moved that moved `each`.
  void Add(std::uint64_t times, const Traffic& each) {
    for (std::size_t kind = 0; kind < sent.size(); ++kind) {
      sent[kind] += times * each.sent[kind];
      received[kind] += times * each.received[kind];
    }
  }
};

}  // namespace tutti::host
