// One peer through a plug-in: both halves of what is between it and this rank.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transports/plugin/inbox.h"
#include "transports/plugin/messages.h"
#include "transports/plugin/outbox.h"
#include "transports/side/peer.h"

namespace tutti::plugin {

class Peer final : public side::Peer {
 public:
  // What is shared outlives it. `context`: the owner of the plug-in's context, which connections need.
  Peer(int rank, const Shared& shared, const Outbox::Shared& out, const Device& device,
       std::shared_ptr<const void> context);
  ~Peer() override { Close(); }

  // Listens for the peer's connections.
  void Greet() override;
  bool listening() const { return static_cast<bool>(reserved_); }
  // Begins to connect to the peer.
  bool Hear(std::span<const std::byte> own) override;
  bool open() const override { return outbox_ != nullptr && outbox_->open(); }
  bool up() const override { return open() && inbox_->open(); }
  bool met() const override { return outbox_ != nullptr && outbox_->met(); }

  int Room() const override { return usable() ? outbox_->Room() : 0; }
  void Send(const progress::SlotMessage& slot, const std::byte* data) override;
  void Flush() override;
  // After Leave(), it goes over the side channel.
  void SendShort(std::span<const std::byte> message) override;
  std::vector<std::vector<std::byte>> TakeWaiting() override;
  bool settled() const override { return outbox_ == nullptr || !outbox_->why().empty() || outbox_->settled(); }
  // Moves what can be moved, both ways. True: something moved.
  bool Advance();
  // Drops registrations of ranges of the user's memory that are gone.
  void DropRanges();

  std::uint64_t sent() const override { return outbox_ == nullptr ? 0 : outbox_->sent(); }
  std::uint64_t handed_on() const override { return inbox_ == nullptr ? 0 : inbox_->handed_on(); }
  // Nothing goes to the peer after these.
  void Leave() override { End(); }
  void HearLeaving(const side::Leaving& leaving) override;
  // The peer has ended, too, and no request is left, or none that could still be done.
  bool ended() const override {
    return outbox_ == nullptr ||
           ((inbox_->ended() || !inbox_->why().empty()) && (outbox_->drained() || !outbox_->why().empty()));
  }
  // Connections that use no other memory stay open until the end.
  void Stop() override;

 private:
  bool usable() const { return outbox_ != nullptr && !stopped() && why().empty() && !leaving(); }
  void End();
  void LookForFailures();
  void Close();

  Outbox::Shared out_;
  const Device& device_;
  std::shared_ptr<const void> context_;
  std::uint64_t token_;
  Reserved reserved_;  // the connections
  // Null once closed.
  std::unique_ptr<Outbox> outbox_;
  std::unique_ptr<Inbox> inbox_;
};

}  // namespace tutti::plugin
