// This rank's rings to and from one rank of another host, from the network's side: it empties what this rank fills for
// the peer, and fills what the peer has filled for this rank. Both sides count slots; those in flight are bounded by
// the ring's depth at the receiver, whose counts come back as credits.
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
#include "transports/progress/network_transport.h"
#include "transports/shm/fabric.h"

namespace tutti::progress {

// Connections of a pair of ranks, numbered as on the network.
constexpr std::uint32_t ConnectionOf(int channel, ring::Protocol protocol) {
  return static_cast<std::uint32_t>(channel) * ring::kProtocols + static_cast<std::uint32_t>(protocol);
}

// A connection's two rings, and the counts that their users read.
struct ConnectionRings {
  std::byte* outgoing;                        // slots that this rank fills
  std::byte* incoming;                        // slots that this rank empties
  ring::SlotShape shape;                      // of both
  std::atomic<std::uint32_t>* sent;           // the filler reads here how many are free again
  const std::atomic<std::uint32_t>* emptied;  // the emptier publishes here how many it has emptied
};

// The sending half of a connection.
class OutgoingRing {
 public:
  OutgoingRing() = default;
  // `head`: where the ring's filler reads how many of its slots are free again.
  OutgoingRing(const std::byte* slots, ring::SlotShape shape, std::atomic<std::uint32_t>* head)
      : slots_(slots), shape_(shape), head_(head) {}

  // The next slot has been filled.
  bool Filled() const { return ring::FlagNumber(Next().flag.load(std::memory_order_acquire)) == taken_ + 1; }
  // The receiver has room for it.
  bool MayGo() const { return taken_ - acknowledged_ < shape_.depth; }
  // Sets `data` to the slot's data: in the slot, or where the slot refers to. REQUIRES: Filled() and MayGo().
  SlotMessage Take(std::uint32_t connection, const std::byte*& data);
  // Slot `number` no longer needs its memory.
  void Sent(std::uint32_t number);
  // Nor do any others that were taken. REQUIRES: Sent() is not called any more.
  void AllSent();
  // The next slot refers to memory that is not the ring's. REQUIRES: Filled().
  bool NextRefers() const { return Next().kind == ring::SlotKind::pointer; }
  // The transport may still read memory that is not the ring's.
  bool Lends() const;
  // The receiver has emptied this many; older counts are ignored. False: more than were sent.
  bool Acknowledge(std::uint32_t emptied);

 private:
  const ring::SlotHeader& HeaderOf(std::uint32_t count) const {
    return *reinterpret_cast<const ring::SlotHeader*>(slots_ + std::size_t{ring::SlotIndex(count, shape_.depth)} *
                                                                   shape_.stride);
  }
  const ring::SlotHeader& Next() const { return HeaderOf(taken_); }

  const std::byte* slots_ = nullptr;
  ring::SlotShape shape_{};
  std::atomic<std::uint32_t>* head_ = nullptr;
  std::uint32_t taken_ = 0;         // given to the transport
  std::uint32_t sent_ = 0;          // of those, sent without a gap
  std::uint64_t sent_beyond_ = 0;   // bit i: slot sent_ + 1 + i is sent, too
  std::uint32_t acknowledged_ = 0;  // emptied by the receiver
};

// The receiving half.
class IncomingRing {
 public:
  IncomingRing() = default;
  // `head`: where the ring's emptier publishes its count.
  IncomingRing(std::byte* slots, ring::SlotShape shape, const std::atomic<std::uint32_t>* head)
      : slots_(slots), shape_(shape), head_(head) {}

  // The call that reads the slot wants its data at `destination`. No effect if they are on their way already. REQUIRES:
  // nothing else uses that memory until the slot has landed.
  void Expect(const SlotMessage& slot, std::byte* destination);
  // Null if the slot is not free or too small.
  std::byte* Landing(const SlotMessage& message) const;
  // The same, or where the slot is expected. Null also if this slot came before.
  std::byte* LandingInPlace(const SlotMessage& message);
  // REQUIRES: one of them gave the data's place, and the data is there.
  void Landed(const SlotMessage& message);
  // Some data are on their way to memory that is not the ring's.
  bool Borrows() const {
    return std::ranges::any_of(expected_, [](const Expected& each) { return each.borrowed; });
  }
  std::uint32_t emptied() const { return head_->load(std::memory_order_acquire); }
  // Some slots have landed that are not yet reported as emptied.
  bool owes() const { return told_ != landed_; }
  // Slots emptied since the last report to the sender.
  std::uint32_t news() const { return emptied() - told_; }
  std::uint32_t depth() const { return shape_.depth; }
  std::uint32_t Tell() { return told_ = emptied(); }

 private:
  std::byte* Slot(std::uint32_t number) const {
    return slots_ + std::size_t{ring::SlotIndex(number - 1, shape_.depth)} * shape_.stride;
  }

  struct Expected {
    std::uint32_t begun = 0;  // the last slot at this place whose data are on their way, or have landed
    SlotMessage slot{};       // number 0: none is expected
    std::byte* destination = nullptr;
    bool borrowed = false;  // the transport writes there
  };
  Expected& ExpectedAt(std::uint32_t number) {
    if (expected_.empty()) expected_.resize(shape_.depth);
    return expected_[ring::SlotIndex(number - 1, shape_.depth)];
  }

  std::byte* slots_ = nullptr;
  ring::SlotShape shape_{};
  const std::atomic<std::uint32_t>* head_ = nullptr;
  std::uint32_t landed_ = 0;
  std::uint32_t told_ = 0;
  std::vector<Expected> expected_;  // by the slot's place; empty until it is used
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

  // Whether `polled` rings have filled slots that are yet to be taken.
  bool HasFilled() const;
  // Gives the transport what may be sent. True: something was given.
  bool PumpSlots(NetworkTransport& transport);
  // Slots that refer to memory are not given any more, and none land there: their call has failed, and its caller has the
  // memory back.
  void Recall() { recalled_ = true; }
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
  void Expect(const SlotMessage& slot, std::byte* destination) { incoming_[slot.connection].Expect(slot, destination); }
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
  std::size_t words_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> pending_;  // a bit for each connection: slots may have been filled
  std::vector<std::uint64_t> owing_;                       // likewise: IncomingRing::owes()
  bool recalled_ = false;
  std::uint64_t announced_ = 0;       // the last record sent to the peer
  std::uint64_t announced_mark_ = 0;  // and the mark
  std::array<std::uint32_t, ring::kCallSites> announced_sites_{};  // by place
  std::vector<std::byte> bytes_;      // of the message being sent
};

}  // namespace tutti::progress
