#include "transports/verbs/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <set>
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

// A rank's ports, as it tells them to the others. Longer names than devices have are cut.
using PortName = std::array<char, 80>;
struct RailsOfRank {
  std::uint32_t count;
  std::array<PortName, kMostRails> names;
  std::array<float, kMostRails> gbit;
};
PortName NameAsArray(const std::string& name) {
  PortName array{};
  name.copy(array.data(), array.size());
  return array;
}

std::string WhyNot(const Settings& settings) {
  try {
    OpenRails(settings);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string WhyNotDirect(const Settings& settings, const std::vector<std::string>& nics,
                         const std::function<std::string(const std::string& nic)>& too_far,
                         const progress::DeviceMemory& memory, const std::byte* begin, std::size_t bytes) {
  try {
    const auto rails = OpenRails(settings, nics);
    for (const auto& rail : rails) {
      if (auto why = too_far(rail->port().device); !why.empty()) return why;
    }
    const auto file = memory.FileOf(begin, bytes);
    RailRegions(rails, {begin, bytes, file->descriptor, file->offset}, true);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

VerbsTransport::VerbsTransport(int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                               const Settings& settings, const std::vector<std::string>& nics,
                               const AllGather& all_gather, progress::NetworkTransportEvents& events)
    : VerbsTransport(OpenRails(settings, nics), rank, peers, key, settings, all_gather, events) {}

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
  RailsOfRank mine{};
  mine.count = static_cast<std::uint32_t>(rails_.size());
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    mine.names[i] = NameAsArray(rails_[i]->name());
    mine.gbit[i] = static_cast<float>(rails_[i]->port().speed);
  }
  const auto rails = GatherValues(all_gather, mine);
  if (rails.size() > WorkId::kMostRanks)
    Throw(tuttiInvalidUsage, "verbs: {} ranks are more than verbs supports", rails.size());
  std::set<PortName> of_host;
  double gbit = 0;
  for (std::size_t r = 0; r < rails.size(); ++r) {
    if (std::ranges::find(peers, static_cast<int>(r)) != peers.end()) continue;
    for (std::size_t i = 0; i < std::min<std::size_t>(rails[r].count, kMostRails); ++i) {
      if (of_host.insert(rails[r].names[i]).second) gbit += rails[r].gbit[i];
    }
  }
  constexpr double kGbitPerGB = 8;
  bandwidth_ = gbit / kGbitPerGB;
  const VerbsPeer::Device device{rails_, registered_, settings_};
  for (const int peer : peers) {
    const std::size_t both = std::clamp<std::size_t>(rails[static_cast<std::size_t>(peer)].count, 1, rails_.size());
    Add(std::make_unique<VerbsPeer>(peer, shared(), both, device));
  }
  Log(Subject::transport, "rank {}: verbs to {} ranks, over {}", rank, peers.size(), names);
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
  registered_.Add(begin, bytes, RailRegions(rails_, {begin, bytes}, false));
}

void VerbsTransport::Deregister(const std::byte* begin, std::size_t bytes) { registered_.Remove(begin, bytes); }

constexpr progress::NetworkKind kNetwork{
    tuttiTransportVerbs, "verbs", true, &WhyNot, nullptr, &progress::MakeByNics<VerbsTransport>, &WhyNotDirect};

}  // namespace tutti::verbs
