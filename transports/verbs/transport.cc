#include "transports/verbs/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/log.h"
#include "transports/verbs/verbs.h"

namespace tutti::verbs {
namespace {

// A device reports what has arrived.
constexpr Deadline::Milliseconds kNoLeaveMessages{0};
constexpr std::size_t kBatch = 32;
// The most batches in a row, so that a peer that sends endlessly does not keep this rank from its other work.
constexpr int kBatchesInARow = 8;

std::string WhyNot(const Settings& settings) {
  try {
    OpenRails(settings);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

VerbsTransport::VerbsTransport(int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                               const Settings& settings, const AllGather& all_gather,
                               progress::NetworkTransportEvents& events)
    : VerbsTransport(OpenRails(settings), rank, peers, key, settings, all_gather, events) {}

VerbsTransport::VerbsTransport(Rails opened, int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                               const Settings& settings, const AllGather& all_gather,
                               progress::NetworkTransportEvents& events)
    : side::Transport("verbs", rank, peers, key, settings, all_gather, events, kNoLeaveMessages),
      settings_(settings),
      rails_(std::move(opened)) {
  std::string names;
  for (const auto& rail : rails_) {
    channel().Watch(rail->descriptor());
    channel().Watch(rail->event_descriptor());
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", rail->name(), TextOf(rail->gid().gid));
  }
  const auto rails = GatherValues(all_gather, static_cast<std::uint32_t>(rails_.size()));
  if (rails.size() > WorkId::kMostRanks)
    Throw(tuttiInvalidUsage, "verbs: {} ranks are more than verbs supports", rails.size());
  const VerbsPeer::Device device{rails_, registered_, settings_};
  for (const int peer : peers) {
    const std::size_t both = std::clamp<std::size_t>(rails[static_cast<std::size_t>(peer)], 1, rails_.size());
    Add(std::make_unique<VerbsPeer>(peer, shared(), both, device));
  }
  Log(Subject::transport, "rank {}: verbs to {} ranks, over {}", rank, peers.size(), names);
}

double VerbsTransport::bandwidth() const {
  constexpr double kGbitPerGB = 8;
  double sum = 0;
  for (const auto& rail : rails_) sum += rail->port().speed / kGbitPerGB;
  return sum;
}

bool VerbsTransport::PollRail(std::size_t index) {
  auto& rail = *rails_[index];
  if (!rail.polls()) return false;
  std::array<ibv_wc, kBatch> batch;
  bool moved = false;
  for (int i = 0; i < kBatchesInARow; ++i) {
    const auto completions = rail.Poll(batch);
    for (const auto& completion : completions) {
      Verbs(static_cast<int>(WorkId::From(completion.wr_id).rank)).Complete(index, completion);
    }
    moved = moved || !completions.empty();
    if (completions.size() < kBatch) break;
  }
  if (!rail.polls()) {
    const auto used = active();
    for (const int rank : used) Break(rank, rail.name() + ": its completion queue is broken");
    moved = true;
  }
  return moved;
}

bool VerbsTransport::LookAtEvents() {
  bool fatal = false;
  for (const auto& rail : rails_) {
    while (const auto event = rail->NextEvent()) {
      Log(Subject::transport, "rank {}: {}", rank(), event->text);
      if (!event->fatal) continue;
      fatal = true;
      const auto used = active();
      for (const int rank : used) {
        if (event->pair == nullptr || Verbs(rank).Uses(event->pair)) GiveUp(rank, event->text);
      }
    }
  }
  return fatal;
}

bool VerbsTransport::Move() {
  bool moved = false;
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) moved = PollRail(rail) || moved;
  // The device may have reported why a peer has failed.
  if (troubled()) LookAtEvents();
  return moved;
}

bool VerbsTransport::Arm() {
  const bool fatal = LookAtEvents();
  // Arms first and polls then: completions in between are seen, and later ones wake the thread.
  for (const auto& rail : rails_) rail->Arm();
  return !Move() && !fatal;
}

void VerbsTransport::LookForSilence() {
  side::Transport::LookForSilence();
  LookAtEvents();
}

void VerbsTransport::Register(const std::byte* begin, std::size_t bytes) {
  if (bytes == 0 || registered_.Find(begin, bytes) != nullptr) return;
  registered_.Add(begin, bytes, RailRegions(rails_, begin, bytes, false));
}

void VerbsTransport::Deregister(const std::byte* begin, std::size_t bytes) { registered_.Remove(begin, bytes); }

constexpr progress::NetworkKind kNetwork{
    tuttiTransportVerbs, "verbs", true, &WhyNot, nullptr, &progress::Make<VerbsTransport>};

}  // namespace tutti::verbs
