#include "transports/side/transport.h"

#include <algorithm>
#include <utility>

#include "base/all_gather.h"
#include "base/log.h"
#include "base/plain_text.h"

namespace tutti::side {
namespace {

// While all is well, the channel has no news: one system call in this many polls is enough. But a thread that has not
// polled for long looks there first, because nothing is sent to a peer that has left.
constexpr unsigned kPollsPerLook = 64;
constexpr Deadline::Milliseconds kLook{1};
// How long to wait for what an orderly leaver says it has sent.
constexpr Deadline::Milliseconds kOrderlyArrivals{2'000};
// The most rounds for what a peer may have sent before its end, so that others' traffic cannot keep it.
constexpr int kLastRounds = 64;
// The most leave messages of a peer that wait for an answer: it sends one for each last message.
constexpr int kMostUnconfirmed = 64;

}  // namespace

Transport::Transport(std::string name, int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                     const Settings& settings, const AllGather& all_gather, progress::NetworkTransportEvents& events,
                     Deadline::Milliseconds patience)
    : name_(std::move(name)),
      rank_(rank),
      events_(events),
      most_patience_(patience),
      channel_(std::in_place, rank, peers, key, settings, all_gather, static_cast<ChannelEvents&>(*this)),
      known_(peers),
      next_look_(Deadline::After(kLook)) {
  const auto highest = std::ranges::max_element(peers);
  if (highest != peers.end()) peers_.resize(static_cast<std::size_t>(*highest) + 1);
}

void Transport::Add(std::unique_ptr<Peer> peer) {
  auto& own = At(peer->rank()).own;
  own = std::move(peer);
}

void Transport::Begin(int rank) {
  if (std::exchange(At(rank).begun, true)) return;
  active_.push_back(rank);
  starting_.push_back(rank);
}

void Transport::Connect(int rank) {
  if (At(rank).broken) return;
  Begin(rank);
  channel_->Connect(rank);
}

void Transport::SendControl(int rank, std::span<const std::byte> message) {
  auto& peer = At(rank);
  if (peer.broken) return;
  if (peer.own->leaving() || (closed_ && !peer.own->open())) {
    peer.own->Forward(message);
  } else {
    peer.own->SendShort(message);
  }
  if (closed_) SayLeaving(rank);
}

void Transport::SayLeaving(int rank) {
  auto& peer = At(rank);
  if (most_patience_.count() == 0 || peer.broken || !peer.own->open() || !peer.own->why().empty()) return;
  const auto sent = peer.own->sent();
  if (std::exchange(peer.announced, sent) == sent) return;
  ++peer.unheard;
  Say(rank, Leaving{sent});
  peer.own->Leave();
}

void Transport::Connected(int rank) {
  auto& peer = At(rank);
  if (peer.broken) return;
  Begin(rank);
  if (!std::exchange(peer.greeted, true)) peer.own->Greet();
  events_.Connected(rank);
}

bool Transport::Control(int rank, std::span<const std::byte> bytes) {
  auto& peer = At(rank);
  if (peer.broken) return true;
  const auto message = Decode(bytes);
  if (!message) return false;
  if (const auto* own = std::get_if<side::Own>(&*message)) return peer.own->Hear(own->bytes);
  if (const auto* forwarded = std::get_if<Forwarded>(&*message)) return peer.own->TakeForwarded(*forwarded);
  if (const auto* leaving = std::get_if<Leaving>(&*message)) {
    if (most_patience_.count() == 0 || peer.unconfirmed == kMostUnconfirmed) return false;
    peer.own->HearLeaving(*leaving);
    if (peer.unconfirmed++ == 0) confirming_.push_back(rank);
  } else if (const auto* gave_up = std::get_if<GaveUp>(&*message)) {
    // So that it does not take what this rank does next, perhaps its end, for the reason.
    Say(rank, Heard{});
    Break(rank, peer.own->why().empty() ? "it gave up: " + Printable(gave_up->why) : peer.own->why());
  } else if (!peer.own->why().empty()) {
    Break(rank, peer.own->why());  // its process lives: there is no better reason
  } else {
    peer.unheard = std::max(0, peer.unheard - 1);
  }
  return true;
}

void Transport::Broken(int rank, const std::string& why) {
  const auto& peer = At(rank);
  if (peer.broken) return;
  if (!peer.own->met()) {
    Break(rank, why);
    return;
  }
  // That its process has ended is a better reason than what the other means report then.
  last_arrivals_.Forget(rank);
  Await(rank, why);
}

void Transport::Await(int rank, const std::string& why) {
  const auto& own = *At(rank).own;
  last_arrivals_.Await(rank, why, own.leaving() && own.why().empty() ? kOrderlyArrivals : kLastArrivals);
}

void Transport::GiveUp(int rank, const std::string& why) {
  if (At(rank).broken) return;
  Say(rank, GaveUp{why});
  Break(rank, why);
}

// Once.
void Transport::TellFailure(int rank) {
  auto& peer = At(rank);
  if (!peer.broken && !peer.own->why().empty() && !std::exchange(peer.told, true)) Say(rank, GaveUp{peer.own->why()});
}

// By value: `why` may be the peer's own, or among the last arrivals.
void Transport::Break(int rank, std::string why) {
  auto& peer = At(rank);
  if (std::exchange(peer.broken, true)) return;
  last_arrivals_.Forget(rank);
  std::erase(active_, rank);
  Log(Subject::transport, "rank {}: the connection to rank {} through {} has ended: {}", rank_, rank, name_, why);
  peer.own->Stop();
  events_.Broken(rank, why);
}

bool Transport::AdvanceChannel() {
  next_look_ = Deadline::After(kLook);
  const bool moved = channel_->Advance();
  std::erase_if(starting_, [this](int rank) { return At(rank).broken || At(rank).own->up(); });
  return moved;
}

// Confirms leave messages of which everything has arrived. Saying something may reveal that a peer is gone.
bool Transport::Confirm() {
  if (confirming_.empty()) return false;
  bool moved = false;
  for (const int rank : std::exchange(confirming_, {})) {
    auto& peer = At(rank);
    if (peer.broken) continue;
    if (!peer.own->all_here()) {
      confirming_.push_back(rank);
      continue;
    }
    for (; peer.unconfirmed > 0; --peer.unconfirmed) Say(rank, Heard{});
    moved = true;
  }
  return moved;
}

// Handles peers that have failed. If a process has ended, the channel will have the better reason; if it lives, it
// answers.
bool Transport::AdvanceTroubles() {
  if (troubled_.empty()) return false;
  AdvanceChannel();
  for (const int rank : std::exchange(troubled_, {})) {
    if (At(rank).broken) continue;
    TellFailure(rank);
    Await(rank, At(rank).own->why());
  }
  return true;
}

bool Transport::AdvanceEnds() {
  if (last_arrivals_.empty()) return false;
  const auto is_over = [this](int rank) { return At(rank).own->all_here() && At(rank).own->ended(); };
  if (last_arrivals_.Over(is_over).empty()) return false;
  // This thread may not have run for long, so that more has arrived than one round takes.
  for (int round = 0; round < kLastRounds && Move(); ++round) {
  }
  for (const int rank : last_arrivals_.Over(is_over)) {
    if (const auto* const why = last_arrivals_.Why(rank)) Break(rank, *why);
  }
  return true;
}

bool Transport::Advance() {
  bool moved = false;
  if (closed_ || !starting_.empty() || ++polls_ % kPollsPerLook == 0 || next_look_.Passed()) moved = AdvanceChannel();
  moved = Move() || moved;
  moved = Confirm() || moved;
  moved = AdvanceTroubles() || moved;
  return AdvanceEnds() || moved;
}

Deadline::Milliseconds Transport::LongestWait() const {
  return last_arrivals_.empty() ? channel_->LongestWait() : std::min(kLookForArrivals, channel_->LongestWait());
}

void Transport::Abandon(int rank) {
  TellFailure(rank);
  Break(rank, "this rank has failed, and takes back the memory that it was sending");
}

void Transport::Close() {
  channel_->Close();
  patience_ = Deadline::After(most_patience_);
  closed_ = true;
  for (const int rank : known_) {
    const auto& peer = At(rank);
    if (peer.broken) continue;
    TellFailure(rank);
    if (!peer.own->open()) {
      for (const auto& message : peer.own->TakeWaiting()) peer.own->Forward(message);
    }
    SayLeaving(rank);
  }
}

bool Transport::Delivered(int rank) const {
  const auto& peer = At(rank);
  if (peer.broken) return true;
  return peer.own->settled() && channel_->Delivered(rank) && (peer.unheard == 0 || patience_.Passed());
}

bool Transport::AwaitsPeers() const {
  const auto waits = [this](int rank) {
    const auto& peer = At(rank);
    return peer.unheard > 0 || (peer.greeted && !peer.own->ended());
  };
  return closed_ && std::ranges::any_of(active_, waits) && !patience_.Passed();
}

}  // namespace tutti::side
