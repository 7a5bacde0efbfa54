#include "transports/plugin/peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "net/auth/secret_key.h"

namespace tutti::plugin {
namespace {

// What is left of a peer when its communicator goes.
class Remains final : public Unfinished {
 public:
  Remains(std::shared_ptr<const void> context, Reserved reserved, std::unique_ptr<Outbox> outbox,
          std::unique_ptr<Inbox> inbox)
      : context_(std::move(context)),
        reserved_(std::move(reserved)),
        outbox_(std::move(outbox)),
        inbox_(std::move(inbox)) {}

  bool idle() const { return outbox_->idle() && inbox_->idle(); }
  bool Outlive() { return outbox_->Outlive() && inbox_->Outlive(); }
  bool Finished() override {
    const bool sent = outbox_->FinishAll();
    return inbox_->FinishAll() && sent;
  }

 private:
  std::shared_ptr<const void> context_;
  Reserved reserved_;
  std::unique_ptr<Outbox> outbox_;
  std::unique_ptr<Inbox> inbox_;
};

}  // namespace

Peer::Peer(int rank, const Shared& shared, const Outbox::Shared& out, const Device& device,
           std::shared_ptr<const void> context)
    : side::Peer(rank, shared),
      out_(out),
      device_(device),
      context_(std::move(context)),
      token_(auth::RandomNumber()),
      outbox_(std::make_unique<Outbox>(rank, out)),
      inbox_(std::make_unique<Inbox>(rank, token_, out.library, out.events)) {}

void Peer::Greet() {
  if (stopped()) return;
  reserved_ = Reserved(device_, kConnectionsToAPeer);
  if (!reserved_) {
    Fail(fmt::format("{}: its device {} makes at most {} connections (maxComms), and too few are left",
                     out_.library.Name(), device_.name, device_.most_connections));
    return;
  }
  Greeting greeting{token_, device_.most_bytes, {}};
  if (inbox_->Listen(out_.context, out_.device, greeting.handles)) {
    Say(Encode(greeting));
  } else {
    Fail(inbox_->why());
  }
}

bool Peer::Hear(std::span<const std::byte> own) {
  if (stopped()) return true;
  const auto theirs = DecodeGreeting(own);
  if (!theirs || outbox_->met()) return false;
  const auto piece = std::min<std::size_t>(device_.most_bytes, theirs->piece);
  inbox_->Expect(piece);
  outbox_->Connect(*theirs, piece);
  return true;
}

void Peer::Send(const progress::SlotMessage& slot, const std::byte* data) {
  if (!usable()) return;
  outbox_->Send(slot, data);
  LookForFailures();
}

void Peer::SendShort(std::span<const std::byte> message) {
  if (outbox_ == nullptr || stopped()) return;
  if (outbox_->ending()) {
    Forward(message);
  } else {
    outbox_->SendShort(message);
  }
}

std::vector<std::vector<std::byte>> Peer::TakeWaiting() {
  return outbox_ == nullptr ? std::vector<std::vector<std::byte>>() : outbox_->TakeWaiting();
}

void Peer::LookForFailures() {
  if (!inbox_->why().empty()) Fail(inbox_->why());
  // A peer that leaves closes its ends of the connections: that something cannot be sent there is no failure.
  if (!outbox_->why().empty() && !leaving()) Fail(outbox_->why());
}

void Peer::Flush() {
  if (outbox_ == nullptr || stopped()) return;
  outbox_->Flush();
  LookForFailures();
}

// After a failure of one half, the other goes on until Stop(): what the peer sent before is still to arrive.
bool Peer::Advance() {
  if (outbox_ == nullptr || stopped()) return false;
  const bool received = inbox_->Advance();
  const bool sent = outbox_->Advance();
  LookForFailures();
  return received || sent;
}

void Peer::DropRanges() {
  if (outbox_ != nullptr) outbox_->DropRanges();
}

void Peer::End() {
  if (outbox_ != nullptr) outbox_->End();
}

void Peer::HearLeaving(const side::Leaving& leaving) {
  side::Peer::HearLeaving(leaving);
  End();
}

void Peer::Stop() {
  side::Peer::Stop();
  if (outbox_ != nullptr && !(outbox_->quiet() && inbox_->quiet())) Close();
}

// Connections are closed only if no request is left, or if the memory of a request goes away: see Library::Keep().
void Peer::Close() {
  if (outbox_ == nullptr) return;
  auto remains = std::make_unique<Remains>(context_, std::move(reserved_), std::move(outbox_), std::move(inbox_));
  if (!remains->idle() && remains->Outlive()) out_.library.Keep(std::move(remains));
}

}  // namespace tutti::plugin
