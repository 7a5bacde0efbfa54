// Replaces the network's side of the rings in models: a peer on another host, whose slots are only counted.
//
// Thread-safety: one thread at a time; any thread may read `landed`.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transports/progress/network_messages.h"
#include "transports/progress/network_transport.h"
#include "transports/shm/fabric.h"

namespace tutti::progress {

// One connection: the number of slots that have landed.
struct ConnectionRings {
  std::atomic<int>* landed;
};
enum class Tell { due, along, all };

class NetworkPeer {
 public:
  NetworkPeer(shm::Fabric&, int rank, std::span<const ConnectionRings> rings)
      : rank_(rank), rings_(rings.begin(), rings.end()) {}

  int rank() const { return rank_; }
  std::uint32_t Poll(std::uint32_t) { return 0; }
  bool HasFilled() const { return false; }
  void AllowRunAhead() {}
  bool ShowKept() { return false; }
  bool PumpSlots(NetworkTransport&) { return false; }
  bool PumpCredits(NetworkTransport&, Tell) { return false; }
  void Announce(NetworkTransport&) {}
  void Expect(const SlotMessage&, std::byte*) {}
  std::byte* Landing(const SlotMessage&) const { return nullptr; }
  std::byte* LandingInPlace(const SlotMessage&) const { return nullptr; }
  void Landed(const SlotMessage& message) {
    rings_[message.connection].landed->fetch_add(1, std::memory_order_release);
  }
  void Sent(std::uint32_t, std::uint32_t) {}
  void AllSent() {}
  void Recall() {}
  bool Lends() const { return false; }
  ConnectionMemory Memory(std::uint32_t) const { return {}; }
  std::shared_ptr<const void> MemoryOwner(std::uint32_t) const { return nullptr; }
  bool Take(const NetworkMessage&) { return true; }

  bool left = false;
  std::optional<std::string> lost;

 private:
  int rank_;
  std::vector<ConnectionRings> rings_;
};

}  // namespace tutti::progress
