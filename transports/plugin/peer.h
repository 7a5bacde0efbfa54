// One peer through a plug-in: both halves of what is between it and this rank.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transports/plugin/inbox.h"
#include "transports/plugin/messages.h"
#include "transports/plugin/outbox.h"

namespace tutti::plugin {

class Peer {
 public:
  // Shared by all peers of a transport; outlives them.
  struct Shared {
    Outbox::Shared out;
    const Device& device;
    std::vector<int>& troubled;  // peers that have failed since the transport last looked
    std::shared_ptr<const void> context;  // the owner of the plug-in's context, which connections need
  };

  Peer(int rank, const Shared& shared);
  ~Peer() { Close(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Listens for the peer's connections: what the peer needs to know to connect. None: it failed.
  std::optional<Greeting> Listen();
  // Begins to connect to the peer.
  void Meet(const Greeting& theirs);
  // Messages can go, and both can.
  bool sending() const { return outbox_ != nullptr && outbox_->open(); }
  bool up() const { return sending() && inbox_->open(); }

  int Room() const { return usable() ? outbox_->Room() : 0; }
  void Send(const progress::SlotMessage& slot, const std::byte* data);
  // Before there is a connection, the message waits.
  void SendShort(std::span<const std::byte> message);
  // The waiting messages, which will not go this way. REQUIRES: !sending().
  std::vector<std::vector<std::byte>> TakeWaiting();
  // Passes on what was taken, as far as the plug-in takes it.
  void Flush();
  // Moves what can be moved, both ways. True: something moved.
  bool Advance();
  // Drops registrations of ranges of the user's memory that are gone.
  void DropRanges();
  // Nothing is on its way any more.
  bool settled() const { return outbox_ == nullptr || !outbox_->why().empty() || outbox_->settled(); }
  // Slots and short messages.
  std::uint64_t sent() const { return outbox_ == nullptr ? 0 : outbox_->sent(); }

  // The peer will close its connections: it takes no more slots.
  void HearLeaving(const Leaving& leaving) { leaves_after_ = leaving.sent; }
  bool leaving() const { return leaves_after_.has_value(); }
  // Whether everything has arrived that the peer sent before it left.
  bool all_here() const { return leaving() && inbox_ != nullptr && inbox_->handed_on() >= *leaves_after_; }

  // Nothing is sent after this.
  void End();
  // The peer has ended, too, and no request is left, or none that could still be done.
  bool ended() const {
    return outbox_ == nullptr ||
           ((inbox_->ended() || !inbox_->why().empty()) && (outbox_->drained() || !outbox_->why().empty()));
  }

  // Gives up whatever is on its way. Connections that use no other memory stay open until the end.
  void Stop();
  // Why it has failed, for a person; "" if it has not.
  const std::string& why() const { return why_; }

 private:
  bool usable() const { return outbox_ != nullptr && !stopped_ && why_.empty() && !leaving(); }
  void Fail(std::string why);
  void LookForFailures();
  void Close();

  int rank_;
  Shared shared_;
  std::uint64_t token_;
  std::string why_;
  bool stopped_ = false;
  std::optional<std::uint64_t> leaves_after_;
  Reserved reserved_;  // the connections
  // Null once closed.
  std::unique_ptr<Outbox> outbox_;
  std::unique_ptr<Inbox> inbox_;
};

}  // namespace tutti::plugin
