// One peer over verbs: its queue pairs, one on each rail, and each side's knowledge of the other's rings.
//
// The device writes a slot straight into the peer's ring, where its receiver looks for it: the last bytes of the slot's
// header and the data after them in one write, whose completion at the peer names the slot. Where the peer's data lie apart,
// in the memory of its GPU, they go in a write before that (numbers.h). This rank asks the peer for the place of a ring when
// the first slot for it is there. The peer answers when there is memory for that ring: its calls may be behind this rank's.
// Where its own data lie is of no concern to the peer.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/settings/settings.h"
#include "transports/progress/network_transport.h"
#include "transports/progress/range_map.h"
#include "transports/side/peer.h"
#include "transports/verbs/memory.h"
#include "transports/verbs/messages.h"
#include "transports/verbs/queue.h"

namespace tutti::verbs {

class VerbsPeer final : public side::Peer {
 public:
  // Of all peers of a transport; outlives them.
  struct Device {
    const Rails& rails;
    const progress::RangeMap<RailRegions>& registered;
    const Settings& settings;
  };

  // Both sides use the first `rails` of theirs. What is shared outlives it.
  VerbsPeer(int rank, const Shared& shared, std::size_t rails, const Device& device)
      : side::Peer(rank, shared), rails_(rails), device_(device) {}

  // Makes queue pairs.
  void Greet() override;
  // Connects them to the peer's. They are used when both sides have reported theirs as connected.
  bool Hear(std::span<const std::byte> own) override;
  bool up() const override { return met_ && heard_; }

  int Room() const override;
  void Send(const progress::SlotMessage& message, const std::byte* data) override;
  void SendShort(std::span<const std::byte> message) override { SendMessage(message, false); }
  // As NetworkTransport's.
  void Use(std::uint32_t connection);
  std::vector<std::vector<std::byte>> TakeWaiting() override;
  // Everything has arrived in the peer's memory.
  bool settled() const override;
  void Stop() override;

  // A request of this peer's on this rail has completed.
  void Complete(std::size_t rail, const ibv_wc& completion);
  bool Uses(const ibv_qp* pair) const;

 private:
  // A ring of this rank's, registered when it is needed.
  struct RingRegions {
    RailRegions slots, data;  // data: where they lie apart
  };
  struct Connection {
    progress::ConnectionMemory memory;
    RingRegions outgoing, incoming;
    std::optional<RingPlace> there;  // the peer's ring that slots go to
    bool asked = false;
    bool wanted = false;       // the peer has asked, and has no answer yet
    std::uint32_t newest = 0;  // newest number of the slots that have arrived
  };
  struct Waiting {
    std::vector<std::byte> message;
    bool own = false;
    std::size_t posted = 0;  // bytes
  };
  struct Held {
    progress::SlotMessage message;
    const std::byte* data;
  };

  // Of all that give a bool: false if it failed.
  Connection* At(std::uint32_t connection);
  bool Meet(const VerbsGreeting& theirs);
  bool HearReady();
  bool Register(RingRegions& regions, const progress::RingMemory& memory, bool remote);
  bool SendMessage(std::span<const std::byte> message, bool own);
  bool PostParts(std::span<const std::byte> message, bool own, std::size_t& posted);
  const RailRegions* RegionOf(Connection& connection, const progress::SlotMessage& message, const std::byte*& data);
  bool Post(Connection& connection, const progress::SlotMessage& message, const std::byte* data);
  bool Pump();
  bool Received(const VerbsQueue& queue, std::uint32_t buffer, const ibv_wc& completion);
  bool Arrived(std::uint32_t immediate);
  bool TakePart(std::span<const std::byte> part, PartImmediate immediate);
  bool TakeMessage(std::span<const std::byte> message, bool own);
  bool Take(const RingWanted& wanted);
  bool Answer(Connection& connection, std::uint32_t number);
  bool Take(const RingPlace& place);
  bool Posted(const VerbsQueue& queue, int error);
  bool usable() const { return why().empty() && !stopped(); }
  bool Fail(std::string why) {
    side::Peer::Fail(std::move(why));
    return false;
  }
  bool Nonsense() {
    malformed_ = true;
    return Fail("it sent a malformed message");
  }

  std::size_t rails_;
  Device device_;
  std::size_t requests_ = 1;  // for a slot, at most
  bool malformed_ = false;    // the peer is not believed any more
  bool met_ = false;    // this side is connected
  bool heard_ = false;  // the other is
  std::vector<Connection> connections_;
  std::deque<Waiting> waiting_;
  std::vector<Held> held_;             // slots for rings whose place is not known yet
  std::vector<std::byte> assembling_;  // a short message whose parts are arriving
  // Destroyed before the memory that they use.
  std::vector<std::unique_ptr<VerbsQueue>> queues_;  // by rail
};

}  // namespace tutti::verbs
