#include "transports/ucx/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/log.h"

namespace tutti::ucx {
namespace {

// While all is well, the side channel has no news: one system call in this many polls is enough. But a thread that has
// not polled for long looks there first, because nothing is sent to a peer that has left.
constexpr unsigned kPollsPerLook = 64;
constexpr Deadline::Milliseconds kLook{1};
// The most rounds in a row, so that a peer that sends endlessly does not keep this rank from its other work.
constexpr int kRoundsInARow = 8;
// How long to wait for what an orderly leaver says it has sent.
constexpr Deadline::Milliseconds kOrderlyArrivals{2'000};
// How long a leaving rank waits until the others notice. A peer that is computing notices before it sends anything.
constexpr Deadline::Milliseconds kPatience{50};
// The longest wait until UCX has given up what was on its way.
constexpr Deadline::Milliseconds kLongestEnd{200};

}  // namespace

UcxTransport::UcxTransport(int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                           const Settings& settings, const AllGather& all_gather,
                           progress::NetworkTransportEvents& events)
    : rank_(rank),
      events_(events),
      worker_(peers.size()),
      side_(rank, peers, key, settings, all_gather, static_cast<tcp::SideEvents&>(*this)),
      next_look_(Deadline::After(kLook)) {
  worker_.Receive(&UcxTransport::Arrived, this);
  side_.Watch(worker_.descriptor());
  const UcxPeer::Shared shared{rank_, worker_, events_, troubled_};
  for (const int peer : peers) {
    const auto at = static_cast<std::size_t>(peer);
    if (at >= peers_.size()) peers_.resize(at + 1);
    peers_[at] = std::make_unique<Peer>(peer, shared);
  }
  Log(Subject::transport, "rank {}: UCX {} to {} ranks, its address has {} bytes", rank,
      worker_.library().get_version_string(), peers.size(), worker_.address().size());
}

UcxTransport::~UcxTransport() {
  for (const auto& peer : peers_) {
    if (peer != nullptr) peer->ucx.Stop();
  }
  const auto end = Deadline::After(kLongestEnd);
  const auto busy = [](const auto& peer) { return peer != nullptr && !peer->ucx.settled(); };
  while (std::ranges::any_of(peers_, busy) && !end.Passed()) {
    if (!worker_.Progress()) std::this_thread::yield();
  }
}

void UcxTransport::Connect(int rank) {
  if (At(rank).broken) return;
  if (!At(rank).ucx.up()) starting_.push_back(rank);
  side_.Connect(rank);
}

void UcxTransport::SendControl(int rank, std::span<const std::byte> message) {
  auto& peer = At(rank);
  if (peer.broken) return;
  if (peer.ucx.leaving() || (closed_ && !peer.ucx.up())) {
    Say(rank, peer.ucx.Forward(message));
  } else {
    peer.ucx.SendShort(message);
  }
  if (closed_) SayLeaving(rank);
}

// Everything that was sent before arrives, whatever becomes of this side.
void UcxTransport::SayLeaving(int rank) {
  auto& peer = At(rank);
  if (peer.broken || !peer.ucx.up()) return;
  ++peer.unheard;
  Say(rank, UcxLeaving{peer.ucx.sent()});
  peer.ucx.Flush();
}

void UcxTransport::Connected(int rank) {
  auto& peer = At(rank);
  if (peer.broken) return;
  if (!std::exchange(peer.greeted, true)) {
    starting_.push_back(rank);
    for (const auto& greeting : GreetingsOf(peer.ucx.token(), worker_.address())) Say(rank, greeting);
  }
  events_.Connected(rank);
}

bool UcxTransport::Control(int rank, std::span<const std::byte> bytes) {
  auto& peer = At(rank);
  if (peer.broken) return true;
  const auto message = DecodeUcxMessage(bytes);
  if (!message) return false;
  if (const auto* greeting = std::get_if<UcxGreeting>(&*message)) {
    peer.ucx.Meet(*greeting);
  } else if (const auto* leaving = std::get_if<UcxLeaving>(&*message)) {
    peer.ucx.HearLeaving(*leaving);
    Say(rank, UcxHeard{});
  } else if (std::holds_alternative<UcxHeard>(*message)) {
    peer.unheard = std::max(0, peer.unheard - 1);
  } else if (const auto* forwarded = std::get_if<UcxForwarded>(&*message)) {
    peer.ucx.Arrived(*forwarded);
  } else {
    Break(rank, "it gave up: " + std::get<tcp::GaveUp>(*message).why);
  }
  return true;
}

void UcxTransport::Broken(int rank, const std::string& why) {
  auto& peer = At(rank);
  if (peer.broken) return;
  if (!peer.ucx.up()) {
    Break(rank, why);
  } else {
    last_arrivals_.Await(rank, why, peer.ucx.leaving() ? kOrderlyArrivals : tcp::kLastArrivals);
  }
}

void UcxTransport::Break(int rank, const std::string& why) {
  auto& peer = At(rank);
  if (peer.broken) return;
  peer.broken = true;
  last_arrivals_.Forget(rank);
  Log(Subject::transport, "rank {}: the UCX connection to rank {} has ended: {}", rank_, rank, why);
  peer.ucx.Stop();
  events_.Broken(rank, why);
}

ucs_status_t UcxTransport::Arrived(void* transport, const void* header, std::size_t header_bytes, void* data,
                                   std::size_t length, const ucp_am_recv_param_t* parameters) noexcept {
  auto& self = *static_cast<UcxTransport*>(transport);
  UcxHeader of{};
  const bool whole = header_bytes == sizeof of;
  if (whole) std::memcpy(&of, header, sizeof of);
  auto* const peer = whole && of.sender < self.peers_.size() ? self.peers_[of.sender].get() : nullptr;
  if (peer == nullptr || of.token != peer->ucx.token()) {
    if (self.strangers_++ == 0) {
      Log(Subject::transport, "rank {}: dropping UCX messages from a process that is not in this job", self.rank_);
    }
    return UCS_OK;
  }
  return peer->ucx.Arrived(of, data, length, (parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
}

bool UcxTransport::AdvanceSide() {
  next_look_ = Deadline::After(kLook);
  const bool moved = side_.Advance();
  std::erase_if(starting_, [&](int rank) { return At(rank).broken || At(rank).ucx.up(); });
  return moved;
}

// Handles peers whose endpoints have failed. If a process has ended, the side channel has the better reason.
bool UcxTransport::AdvanceTroubles() {
  if (troubled_.empty()) return false;
  AdvanceSide();
  for (const int rank : std::exchange(troubled_, {})) {
    const auto& peer = At(rank);
    if (peer.broken) continue;
    Say(rank, tcp::GaveUp{peer.ucx.why()});
    last_arrivals_.Await(rank, peer.ucx.why(), peer.ucx.leaving() ? kOrderlyArrivals : tcp::kLastArrivals);
  }
  return true;
}

bool UcxTransport::AdvanceEnds() {
  if (last_arrivals_.empty()) return false;
  const auto over = last_arrivals_.Over([this](int rank) { return At(rank).ucx.all_here(); });
  for (const int rank : over) Break(rank, std::string(*last_arrivals_.Why(rank)));
  return !over.empty();
}

bool UcxTransport::Advance() {
  bool moved = false;
  if (closed_ || !starting_.empty() || ++polls_ % kPollsPerLook == 0 || next_look_.Passed()) moved = AdvanceSide();
  for (int i = 0; i < kRoundsInARow && worker_.Progress(); ++i) moved = true;
  moved = AdvanceTroubles() || moved;
  return AdvanceEnds() || moved;
}

bool UcxTransport::PrepareToSleep() { return !AdvanceSide() && troubled_.empty() && worker_.Arm(); }

Deadline::Milliseconds UcxTransport::LongestWait() const {
  return last_arrivals_.empty() ? side_.LongestWait() : std::min(tcp::kLookForArrivals, side_.LongestWait());
}

void UcxTransport::Abandon(int rank) {
  Break(rank, "this rank has failed, and takes back the memory that it was sending");
  const auto end = Deadline::After(kLongestEnd);
  while (!At(rank).ucx.settled() && !end.Passed()) {
    if (!worker_.Progress()) std::this_thread::yield();
  }
}

void UcxTransport::Close() {
  side_.Close();
  patience_ = Deadline::After(kPatience);
  closed_ = true;
  for (std::size_t at = 0; at < peers_.size(); ++at) {
    const auto rank = static_cast<int>(at);
    if (peers_[at] == nullptr || peers_[at]->broken) continue;
    for (const auto& message : peers_[at]->ucx.TakeWaiting()) Say(rank, message);
    SayLeaving(rank);
  }
}

bool UcxTransport::Reaches(int rank) const { return side_.Reaches(rank); }

bool UcxTransport::Delivered(int rank) const {
  const auto& peer = At(rank);
  return peer.broken || (peer.ucx.settled() && side_.Delivered(rank) && (peer.unheard == 0 || patience_.Passed()));
}

}  // namespace tutti::ucx
