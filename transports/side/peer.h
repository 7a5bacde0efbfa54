// What a transport with a side channel needs of one peer, which it reaches by its own means: UCX, verbs, a plug-in.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transports/progress/network_transport.h"
#include "transports/side/channel.h"
#include "transports/side/messages.h"

namespace tutti::side {

class Peer {
 public:
  // Shared by all peers of a transport; outlives them.
  struct Shared {
    Channel& channel;
    progress::NetworkTransportEvents& events;
    std::vector<int>& troubled;  // peers that have failed since the transport last looked
  };

  Peer(int rank, const Shared& shared) : rank_(rank), shared_(shared) {}
  virtual ~Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  int rank() const { return rank_; }
  // Why it has failed, for a person; "" if it has not.
  const std::string& why() const { return why_; }

  // The side channel to the peer is connected: says there how the peer reaches this rank. Called once.
  virtual void Greet() = 0;
  // What the peer's Greet(), or its Hear(), has said. False: it is malformed.
  virtual bool Hear(std::span<const std::byte> own) = 0;
  // Slots can go to the peer and come from it.
  virtual bool up() const = 0;
  // Short messages can go to the peer.
  virtual bool open() const { return up(); }
  // The peer may have sent something.
  virtual bool met() const { return up(); }

  // As NetworkTransport's.
  virtual int Room() const = 0;
  virtual void Send(const progress::SlotMessage& slot, const std::byte* data) = 0;
  virtual void Flush() {}
  // A short message; it waits until open().
  virtual void SendShort(std::span<const std::byte> message) = 0;
  // The messages that wait, which will go another way. REQUIRES: !open().
  virtual std::vector<std::vector<std::byte>> TakeWaiting() = 0;
  // Sends a short message over the side channel.
  void Forward(std::span<const std::byte> message) {
    shared_.channel.Say(rank_, Encode(Forwarded{CountForwarded(), {message.begin(), message.end()}}));
  }
  // False: the message is malformed.
  virtual bool TakeForwarded(const Forwarded& forwarded) { return shared_.events.Control(rank_, forwarded.message); }
  // Nothing is on its way to the peer any more.
  virtual bool settled() const = 0;

  // Slots and short messages sent, and those of the peer that were handed on. Only peers whose transport has leave
  // messages need them.
  virtual std::uint64_t sent() const { return 0; }
  virtual std::uint64_t handed_on() const { return 0; }
  // This rank leaves: ensures that everything sent arrives. REQUIRES: open().
  virtual void Leave() {}
  // The peer leaves, and accepts no more.
  virtual void HearLeaving(const Leaving& leaving) { leaves_after_ = leaving.sent; }
  bool leaving() const { return leaves_after_.has_value(); }
  // Everything has arrived that the peer sent before it left.
  bool all_here() const { return leaving() && handed_on() >= *leaves_after_; }
  // Nothing is left between the two that would be lost if the means were closed now.
  virtual bool ended() const { return true; }

  // Gives up whatever is on its way. Nothing is sent or handed on any more.
  virtual void Stop() { stopped_ = true; }

 protected:
  bool stopped() const { return stopped_; }
  const Shared& shared() const { return shared_; }
  // How many short messages have gone before one that is forwarded now. Only peers that hand on short messages in the
  // order in which they were sent count them.
  virtual std::uint32_t CountForwarded() { return 0; }
  // The first reason counts.
  void Fail(std::string why) {
    if (!why_.empty() || stopped_) return;
    why_ = std::move(why);
    shared_.troubled.push_back(rank_);
  }
  void FailAsMalformed() { Fail("it sent a malformed message"); }
  // To the peer's Hear().
  void Say(std::vector<std::byte> own) { shared_.channel.Say(rank_, Encode(Own{std::move(own)})); }

 private:
  int rank_;
  Shared shared_;
  bool stopped_ = false;
  std::string why_;
  std::optional<std::uint64_t> leaves_after_;
};

}  // namespace tutti::side
