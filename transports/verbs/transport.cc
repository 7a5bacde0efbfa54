#include "transports/verbs/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/log.h"

namespace tutti::verbs {
namespace {

// While all is well, TCP has no news: one system call in this many polls of the completion queues is enough.
constexpr unsigned kPollsPerLook = 64;
constexpr std::size_t kBatch = 32;
// The most batches in a row, so that a peer that sends endlessly does not keep this rank from its other work.
constexpr int kBatchesInARow = 8;

}  // namespace

VerbsTransport::VerbsTransport(int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                               const Settings& settings, const AllGather& all_gather,
                               progress::NetworkTransportEvents& events)
    : rank_(rank),
      settings_(settings),
      events_(events),
      rails_(OpenRails(settings)),
      side_(rank, peers, key, settings, all_gather, static_cast<tcp::SideEvents&>(*this)) {
  std::string names;
  for (const auto& rail : rails_) {
    side_.Watch(rail->descriptor());
    side_.Watch(rail->event_descriptor());
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", rail->name(), TextOf(rail->gid().gid));
  }
  const auto rails = GatherValues(all_gather, static_cast<std::uint32_t>(rails_.size()));
  if (rails.size() > WorkId::kMostRanks)
    Throw(tuttiInvalidUsage, "verbs: {} ranks are more than verbs supports", rails.size());
  peers_.resize(rails.size());
  const VerbsPeer::Shared shared{rails_, registered_, settings_, events_};
  for (const int peer : peers) {
    const auto at = static_cast<std::size_t>(peer);
    const std::size_t both = std::clamp<std::size_t>(rails[at], 1, rails_.size());
    peers_[at] = std::make_unique<Peer>(peer, both, shared);
  }
  Log(Subject::transport, "rank {}: verbs to {} ranks, over {}", rank, peers.size(), names);
}

VerbsTransport::~VerbsTransport() = default;

double VerbsTransport::bandwidth() const {
  constexpr double kGbitPerGB = 8;
  double sum = 0;
  for (const auto& rail : rails_) sum += rail->port().speed / kGbitPerGB;
  return sum;
}

void VerbsTransport::Begin(int rank) {
  auto& peer = At(rank);
  if (peer.begun || peer.broken) return;
  peer.begun = true;
  starting_.push_back(rank);
}

void VerbsTransport::Connect(int rank) {
  if (At(rank).broken) return;
  Begin(rank);
  side_.Connect(rank);
}

int VerbsTransport::Room(int rank) const {
  const auto& peer = At(rank);
  return peer.broken ? 0 : peer.verbs.Room();
}

void VerbsTransport::Send(int rank, const progress::SlotMessage& message, const std::byte* data) {
  auto& peer = At(rank);
  if (!peer.broken) Check(rank, peer.verbs.Send(message, data));
}

void VerbsTransport::SendControl(int rank, std::span<const std::byte> message) {
  auto& peer = At(rank);
  if (peer.broken) return;
  if (closed_ && !peer.verbs.up()) {
    Say(rank, tcp::Forwarded{{message.begin(), message.end()}});
  } else {
    Check(rank, peer.verbs.SendControl(message));
  }
}

void VerbsTransport::Say(int rank, const VerbsMessage& message) { side_.Say(rank, Encode(message)); }

void VerbsTransport::Connected(int rank) {
  auto& peer = At(rank);
  if (peer.broken) return;
  Begin(rank);
  if (!peer.verbs.open()) {
    VerbsGreeting greeting;
    const bool fine = peer.verbs.Open(greeting);
    if (fine) Say(rank, greeting);
    Check(rank, fine);
  }
  if (!peer.broken) events_.Connected(rank);
}

bool VerbsTransport::Control(int rank, std::span<const std::byte> bytes) {
  auto& peer = At(rank);
  if (peer.broken) return true;
  const auto message = DecodeVerbsMessage(bytes);
  if (!message) return false;
  if (const auto* greeting = std::get_if<VerbsGreeting>(&*message)) {
    const bool fine = peer.verbs.Meet(*greeting);
    if (fine) Say(rank, VerbsReady{});
    Check(rank, fine);
  } else if (std::holds_alternative<VerbsReady>(*message)) {
    Check(rank, peer.verbs.HearReady());
  } else if (const auto* gave_up = std::get_if<tcp::GaveUp>(&*message)) {
    Break(rank, "it gave up: " + gave_up->why);
  } else if (const auto* forwarded = std::get_if<tcp::Forwarded>(&*message)) {
    return events_.Control(rank, forwarded->message);
  } else {
    return false;
  }
  return true;
}

void VerbsTransport::Broken(int rank, const std::string& why) {
  auto& peer = At(rank);
  if (peer.broken) return;
  if (!peer.verbs.up()) {
    Break(rank, why);
    return;
  }
  last_arrivals_.Await(rank, why, tcp::kLastArrivals);
}

// Breaks with the peer if an operation has failed.
void VerbsTransport::Check(int rank, bool fine) {
  if (fine) return;
  Say(rank, tcp::GaveUp{At(rank).verbs.why()});
  Break(rank, At(rank).verbs.why());
}

void VerbsTransport::Break(int rank, const std::string& why) {
  auto& peer = At(rank);
  if (peer.broken) return;
  peer.broken = true;
  last_arrivals_.Forget(rank);
  Log(Subject::transport, "rank {}: the verbs connection to rank {} has ended: {}", rank_, rank, why);
  peer.verbs.Stop();
  events_.Broken(rank, why);
}

bool VerbsTransport::AdvanceSide() {
  const bool moved = side_.Advance();
  std::erase_if(starting_, [&](int rank) { return At(rank).broken || At(rank).verbs.up(); });
  return moved;
}

bool VerbsTransport::AdvanceEnds() {
  const auto over = last_arrivals_.Over([](int) { return false; });
  for (const int rank : over) {
    for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
      while (PollRail(rail)) {
      }
    }
    if (const auto* const why = last_arrivals_.Why(rank)) Break(rank, std::string(*why));
  }
  return !over.empty();
}

bool VerbsTransport::PollRail(std::size_t index) {
  auto& rail = *rails_[index];
  if (!rail.polls()) return false;
  std::array<ibv_wc, kBatch> batch;
  bool moved = false;
  for (int i = 0; i < kBatchesInARow; ++i) {
    const auto completions = rail.Poll(batch);
    for (const auto& completion : completions) {
      const int rank = static_cast<int>(WorkId::From(completion.wr_id).rank);
      auto& peer = At(rank);
      if (!peer.broken && !peer.verbs.Complete(index, completion)) Trouble(rank);
    }
    moved = moved || !completions.empty();
    if (completions.size() < kBatch) break;
  }
  if (!rail.polls()) {
    for (std::size_t at = 0; at < peers_.size(); ++at) {
      const bool used = peers_[at] != nullptr && peers_[at]->begun;
      if (used) Break(static_cast<int>(at), rail.name() + ": its completion queue is broken");
    }
    moved = true;
  }
  return moved;
}

// A peer's verbs have failed. If its process has ended, that is the better reason; a device may also have reported one.
void VerbsTransport::Trouble(int rank) {
  auto& peer = At(rank);
  side_.Advance();
  LookAtEvents();
  if (peer.broken) return;
  if (const auto* const why = last_arrivals_.Why(rank)) {
    Break(rank, std::string(*why));
  } else {
    Check(rank, false);
  }
}

bool VerbsTransport::LookAtEvents() {
  bool fatal = false;
  for (const auto& rail : rails_) {
    while (const auto event = rail->NextEvent()) {
      Log(Subject::transport, "rank {}: {}", rank_, event->text);
      if (!event->fatal) continue;
      fatal = true;
      for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
        const auto& peer = peers_[rank];
        if (peer == nullptr || !peer->begun || peer->broken) continue;
        if (event->pair != nullptr && !peer->verbs.Uses(event->pair)) continue;
        Say(static_cast<int>(rank), tcp::GaveUp{event->text});
        Break(static_cast<int>(rank), event->text);
      }
    }
  }
  return fatal;
}

bool VerbsTransport::Advance() {
  bool moved = false;
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) moved = PollRail(rail) || moved;
  if (!starting_.empty() || ++polls_ % kPollsPerLook == 0) moved = AdvanceSide() || moved;
  if (!last_arrivals_.empty()) moved = AdvanceEnds() || moved;
  return moved;
}

bool VerbsTransport::PrepareToSleep() {
  bool moved = AdvanceSide();
  moved = LookAtEvents() || moved;
  // Arms first and polls then: completions in between are seen, and later ones wake the thread.
  for (const auto& rail : rails_) rail->Arm();
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) moved = PollRail(rail) || moved;
  return !moved;
}

void VerbsTransport::LookForSilence() {
  side_.LookForSilence();
  LookAtEvents();
}

Deadline::Milliseconds VerbsTransport::LongestWait() const {
  return last_arrivals_.empty() ? side_.LongestWait() : std::min(tcp::kLookForArrivals, side_.LongestWait());
}

void VerbsTransport::Register(const std::byte* begin, std::size_t bytes) {
  if (bytes == 0 || registered_.Find(begin, bytes) != nullptr) return;
  registered_.Add(begin, bytes, RailRegions(rails_, begin, bytes, false));
}

void VerbsTransport::Deregister(const std::byte* begin, std::size_t bytes) { registered_.Remove(begin, bytes); }

void VerbsTransport::Abandon(int rank) {
  Break(rank, "this rank has failed, and takes back the memory that it was sending");
}

void VerbsTransport::Close() {
  side_.Close();
  closed_ = true;
  for (std::size_t at = 0; at < peers_.size(); ++at) {
    const auto& peer = peers_[at];
    if (peer == nullptr || peer->broken || peer->verbs.up()) continue;
    for (auto& message : peer->verbs.TakeWaiting()) Say(static_cast<int>(at), tcp::Forwarded{std::move(message)});
  }
}

bool VerbsTransport::Reaches(int rank) const { return side_.Reaches(rank); }

bool VerbsTransport::Delivered(int rank) const {
  const auto& peer = At(rank);
  return peer.broken || (peer.verbs.delivered() && (peer.verbs.up() || side_.Delivered(rank)));
}

}  // namespace tutti::verbs
