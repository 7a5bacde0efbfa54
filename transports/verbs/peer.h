// One peer over verbs: its queue pairs, one on each rail, and each side's knowledge of the other's rings.
//
// The device writes a slot straight into the peer's ring, where its receiver looks for it: the last bytes of the slot's
// header and the data after them in one write, whose completion at the peer names the slot. This rank asks the peer for
// the place of a ring when the first slot for it is there.
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
#include <vector>

#include "base/settings.h"
#include "transports/progress/network_transport.h"
#include "transports/progress/range_map.h"
#include "transports/verbs/memory.h"
#include "transports/verbs/messages.h"
#include "transports/verbs/queue.h"

namespace tutti::verbs {

class VerbsPeer {
 public:
  // Shared by all peers of a transport; outlives them.
  struct Shared {
    const Rails& rails;
    const progress::RangeMap<RailRegions>& registered;
    const Settings& settings;
    progress::NetworkTransportEvents& events;
  };

  // Both sides use the first `rails` of theirs.
  VerbsPeer(int rank, std::size_t rails, const Shared& shared) : rank_(rank), rails_(rails), shared_(shared) {}

  // Make queue pairs, connect them to the peer's, and use them when both sides have reported theirs as connected. False
  // from these and all others below: why() says what is wrong, and nothing is sent any more.
  bool Open(VerbsGreeting& greeting);
  bool Meet(const VerbsGreeting& theirs);
  bool HearReady();
  bool open() const { return !queues_.empty(); }
  bool up() const { return met_ && heard_; }

  int Room() const;
  bool Send(const progress::SlotMessage& message, const std::byte* data);
  // Before up(), the message waits.
  bool SendControl(std::span<const std::byte> message) { return SendMessage(message, false); }
  // The waiting messages, which will not go this way.
  std::vector<std::vector<std::byte>> TakeWaiting();
  // Everything has arrived in the peer's memory.
  bool delivered() const;

  // A request of this peer's on this rail has completed.
  bool Complete(std::size_t rail, const ibv_wc& completion);
  bool Take(const RingWanted& wanted);
  bool Take(const RingPlace& place);
  bool Uses(const ibv_qp* pair) const;
  // Nothing is sent or received any more.
  void Stop();
  const std::string& why() const { return why_; }

 private:
  struct Connection {
    progress::ConnectionMemory memory;
    RailRegions outgoing, incoming;  // registered when they are needed
    std::optional<RingPlace> there;  // the peer's ring that slots go to
    bool asked = false;
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

  Connection* At(std::uint32_t connection);
  bool Register(RailRegions& regions, const std::byte* begin, std::size_t bytes, bool remote);
  bool SendMessage(std::span<const std::byte> message, bool own);
  bool PostParts(std::span<const std::byte> message, bool own, std::size_t& posted);
  bool Post(Connection& connection, const progress::SlotMessage& message, const std::byte* data);
  bool Pump();
  bool Arrived(std::uint32_t immediate);
  bool TakePart(std::span<const std::byte> part, PartImmediate immediate);
  bool TakeMessage(std::span<const std::byte> message, bool own);
  bool Posted(const VerbsQueue& queue, int error);
  bool Fail(std::string why);
  bool Nonsense() { return Fail("it sent a malformed message"); }

  int rank_;
  std::size_t rails_;
  Shared shared_;
  bool met_ = false;    // this side is connected
  bool heard_ = false;  // the other is
  std::string why_;
  std::vector<Connection> connections_;
  std::deque<Waiting> waiting_;
  std::vector<Held> held_;             // slots for rings whose place is not known yet
  std::vector<std::byte> assembling_;  // a short message whose parts are arriving
  // Destroyed before the memory that they use.
  std::vector<std::unique_ptr<VerbsQueue>> queues_;  // by rail
};

}  // namespace tutti::verbs
