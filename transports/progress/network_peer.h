// This rank's rings to and from one rank of another host, from the network's side: it empties what this rank fills for
// the peer, and fills what the peer has filled for this rank.
//
// Thread-safety: one thread at a time, except for the words of `pending`, which ring ends set.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transports/progress/network_messages.h"
#include "transports/progress/network_rings.h"
#include "transports/progress/network_transport.h"
#include "transports/shm/fabric.h"

namespace tutti::progress {

// Connections of a pair of ranks, numbered as on the network.
constexpr std::uint32_t ConnectionOf(int channel, ring::Protocol protocol) {
  return static_cast<std::uint32_t>(channel) * ring::kProtocols + static_cast<std::uint32_t>(protocol);
}

// A connection's two rings, and the counts that their users read.
struct ConnectionRings {
  ConnectionMemory memory;
  std::atomic<std::uint32_t>* sent;           // the filler reads here how many are free again
  const std::atomic<std::uint32_t>* emptied;  // the emptier publishes here how many it has emptied
};

// Which credits to send. due: those that the peer may wait for by now. along: those that it may soon wait for, with a
// slot. all: every one, before a sleep.
enum class Tell { due, along, all };

class NetworkPeer {
 public:
  // Takes over the fabric's rings to and from `rank`, and `polled`, whose fillers do not notify this object.
  NetworkPeer(shm::Fabric& fabric, int rank, std::span<const ConnectionRings> polled = {});

  int rank() const { return rank_; }
  ring::ControlBlock& shadow() const { return fabric_.control(rank_); }
  std::uint32_t connections() const { return static_cast<std::uint32_t>(outgoing_.size()); }

  // Calls begin to use `polled` ring `index`, which is looked at from now on. Returns its connection.
  std::uint32_t Poll(std::uint32_t index);
  // Whether rings that are polled have filled slots that are yet to be taken.
  bool HasFilled() const;
  // Gives the transport what may be sent. True: something was given.
  bool PumpSlots(NetworkTransport& transport);
  // Slots that refer to memory are not given any more, and none land there: their call has failed, and its caller has the
  // memory back.
  void Recall();
  // Each side keeps bulk slots of the other outside of full rings, but for `polled` ones. Before the first slot.
  void AllowRunAhead();
  // Shows the calls those that their rings now have room for. True: there were some.
  bool ShowKept();
  // The transport may still read or write memory that is not a ring's.
  bool Lends() const {
    return std::ranges::any_of(outgoing_, &OutgoingRing::Lends) ||
           std::ranges::any_of(incoming_, &IncomingRing::Borrows);
  }
  // Sends credits for emptied slots. True: some were sent.
  bool PumpCredits(NetworkTransport& transport, Tell which);
  // Sends the peer this rank's state, unless it has been sent.
  void Announce(NetworkTransport& transport);

  // See IncomingRing.
  void Expect(const SlotMessage& slot, std::byte* destination) {
    if (!recalled_) incoming_[slot.connection].Expect(slot, destination);
  }
  std::byte* Landing(const SlotMessage& message) const;
  std::byte* LandingInPlace(const SlotMessage& message);
  void Landed(const SlotMessage& message);
  void Sent(std::uint32_t connection, std::uint32_t number) { outgoing_[connection].Sent(number); }
  // The peer has left, and its connections have ended: it has all that it needs. The system may not have confirmed
  // slots that it reads in place, and will not any more.
  void AllSent() {
    for (auto& ring : outgoing_) ring.AllSent();
  }
  // Where a connection's slots lie.
  ConnectionMemory Memory(std::uint32_t connection) const;
  // Keeps them there; null for `polled` ones.
  std::shared_ptr<const void> MemoryOwner(std::uint32_t connection) const {
    return connection < first_polled_ ? fabric_.mapping(rank_) : nullptr;
  }
  // False: no honest peer sends this.
  bool Take(const NetworkMessage& message);

  // Why nothing more will come: it left, or something broke.
  bool left = false;
  std::optional<std::string> lost;

 private:
  static constexpr std::uint32_t kWordBits = 64;

  void Add(const ConnectionRings& rings);
  bool Take(const Credits& credits);
  bool Take(const Status& status);
  bool Take(const Site& site);
  bool Take(const Failed& failed);
  bool Take(const Leaving& leaving);
  void SetPending(std::uint32_t connection) {
    pending_[connection / kWordBits].fetch_or(std::uint64_t{1} << connection % kWordBits, std::memory_order_relaxed);
  }
  bool PumpRing(NetworkTransport& transport, std::uint32_t connection);
  void AnnounceSite(NetworkTransport& transport, std::uint32_t number);
  void SendControl(NetworkTransport& transport, const NetworkMessage& message);

  shm::Fabric& fabric_;
  int rank_;
  std::vector<ConnectionMemory> memory_;  // by connection
  std::vector<OutgoingRing> outgoing_;
  std::vector<IncomingRing> incoming_;
  std::uint32_t first_polled_;
  std::vector<std::uint32_t> polled_;  // connections: those of polled rings that are used
  std::size_t words_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> pending_;  // a bit for each connection: slots may have been filled
  std::vector<std::uint64_t> owing_;                       // likewise: IncomingRing::owes()
  std::vector<std::uint32_t> keeping_;                     // connections: IncomingRing::keeps()
  bool recalled_ = false;
  std::uint64_t announced_ = 0;       // the last record sent to the peer
  std::uint64_t announced_mark_ = 0;  // and the mark
  std::array<std::uint32_t, ring::kCallSites> announced_sites_{};  // by place
  std::vector<std::byte> bytes_;      // of the message being sent
};

}  // namespace tutti::progress
