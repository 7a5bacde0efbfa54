#include "transports/plugin/transport.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/log.h"
#include "base/plain_text.h"

namespace tutti::plugin {
namespace {

// While all is well, the side channel has no news: one system call in this many polls is enough. But a thread that has
// not polled for long looks there first, because nothing is sent to a peer that has left.
constexpr unsigned kPollsPerLook = 64;
constexpr Deadline::Milliseconds kLook{1};
// How long to wait for what an orderly leaver says it has sent.
constexpr Deadline::Milliseconds kOrderlyArrivals{2'000};
// How long a leaving rank waits until the others confirm what it sent: a plug-in does not tell when something has
// arrived, and may lose what has not when its connections are closed. A peer that computes does not confirm.
constexpr Deadline::Milliseconds kPatience{200};
constexpr std::chrono::microseconds kLeaveNap{50};
// Naps of a thread that sleeps, from one question to the next.
constexpr std::chrono::microseconds kFirstNap{50};
constexpr std::chrono::microseconds kLongestNap{1'000};

// What ranks must agree on, or know of each other, before they use a plug-in together.
struct Terms {
  std::uint64_t communicator;  // a number for it; rank 0's counts
  std::array<char, 64> name;   // the plug-in's own; need not be terminated
};

std::string_view TextOf(const std::array<char, 64>& name) { return {name.data(), strnlen(name.data(), name.size())}; }

// Collective: the communicator's number. Throws tuttiInvalidUsage.
std::uint64_t Agree(const Library& library, const AllGather& all_gather) {
  Terms mine{auth::RandomNumber(), {}};
  const auto name = library.net().name();
  std::memcpy(mine.name.data(), name.data(), std::min(name.size(), mine.name.size()));
  const auto all = GatherValues(all_gather, mine);
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r].name == all.front().name) continue;
    Throw(tuttiInvalidUsage, "ranks have different net plug-ins: rank 0 has {}, rank {} has {}",
          Quoted(TextOf(all.front().name)), r, Quoted(TextOf(all[r].name)));
  }
  return all.front().communicator;
}

// Ranks take the fastest devices in turn.
const Device& DeviceFor(const Library& library, int rank) {
  const auto& devices = library.devices();
  const auto fastest = std::ranges::count(devices, devices.front().speed, &Device::speed);
  return devices[static_cast<std::size_t>(rank) % static_cast<std::size_t>(fastest)];
}

}  // namespace

Context::Context(std::shared_ptr<const Library> library, std::uint64_t communicator) : library_(std::move(library)) {
  // Earlier versions have no contexts, and were initialised when they were loaded.
  if (library_->net().version() < 11) return;
  const auto result = library_->net().Init(&context_, communicator);
  if (result != Result::success) Throw(tuttiSystemError, "{}", library_->Failure("init", result));
}

Context::~Context() {
  if (library_->net().version() < 11) return;
  const auto result = library_->net().Finalize(context_);
  if (result != Result::success) Log(Subject::transport, "{}", library_->Failure("finalize", result));
}

PluginTransport::PluginTransport(int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                                 const Settings& settings, const AllGather& all_gather,
                                 progress::NetworkTransportEvents& events)
    : rank_(rank),
      events_(events),
      context_([&] {
        auto library = LoadPlugin(settings);
        const auto communicator = Agree(*library, all_gather);
        return std::make_shared<const Context>(std::move(library), communicator);
      }()),
      device_(DeviceFor(context_->library(), rank)),
      side_(rank, peers, key, settings, all_gather, static_cast<tcp::SideEvents&>(*this)),
      alarm_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      nap_(kFirstNap),
      next_look_(Deadline::After(kLook)) {
  if (!alarm_) ThrowErrno("timerfd_create");
  side_.Watch(alarm_.get());
  const plugin::Peer::Shared shared{
      {context_->library(), context_->get(), device_.index, events_, user_ranges_}, device_, troubled_, context_};
  for (const int peer : peers) {
    const auto at = static_cast<std::size_t>(peer);
    if (at >= peers_.size()) peers_.resize(at + 1);
    peers_[at] = std::make_unique<Peer>(peer, shared);
  }
  Log(Subject::transport, "rank {}: {} to {} ranks, over its device {} ({} Mbit/s, {} connections)", rank,
      context_->library().Name(), peers.size(), Printable(device_.name), device_.speed, device_.most_connections);
}

PluginTransport::~PluginTransport() {
  const auto waits = [this](int rank) { return At(rank).unheard > 0 || !At(rank).plugin.ended(); };
  while (closed_ && std::ranges::any_of(active_, waits) && !patience_.Passed()) {
    if (!Advance()) std::this_thread::sleep_for(kLeaveNap);
  }
}

double PluginTransport::bandwidth() const {
  constexpr double kMbitPerGB = 8'000;
  return device_.speed / kMbitPerGB;
}

void PluginTransport::Connect(int rank) {
  if (!At(rank).broken) side_.Connect(rank);
}

void PluginTransport::SendControl(int rank, std::span<const std::byte> message) {
  auto& peer = At(rank);
  if (peer.broken) return;
  if (closed_ || peer.plugin.leaving()) {
    Say(rank, tcp::Forwarded{{message.begin(), message.end()}});
  } else {
    peer.plugin.SendShort(message);
  }
}

// The peer confirms it when everything that was sent before has arrived.
void PluginTransport::SayLeaving(int rank) {
  auto& peer = At(rank);
  if (peer.broken || !peer.plugin.sending()) return;
  ++peer.unheard;
  Say(rank, Leaving{peer.plugin.sent()});
}

void PluginTransport::Connected(int rank) {
  auto& peer = At(rank);
  if (peer.broken) return;
  if (!std::exchange(peer.greeted, true)) {
    active_.push_back(rank);
    if (const auto greeting = peer.plugin.Listen()) Say(rank, *greeting);
  }
  events_.Connected(rank);
}

bool PluginTransport::Control(int rank, std::span<const std::byte> bytes) {
  auto& peer = At(rank);
  if (peer.broken) return true;
  const auto message = DecodeSideMessage(bytes);
  if (!message) return false;
  if (const auto* greeting = std::get_if<Greeting>(&*message)) {
    peer.plugin.Meet(*greeting);
  } else if (const auto* leaving = std::get_if<Leaving>(&*message)) {
    peer.plugin.HearLeaving(*leaving);
    peer.plugin.End();
    ++peer.unconfirmed;
  } else if (std::holds_alternative<Heard>(*message)) {
    peer.unheard = std::max(0, peer.unheard - 1);
  } else if (const auto* forwarded = std::get_if<tcp::Forwarded>(&*message)) {
    return events_.Control(rank, forwarded->message);
  } else {
    Break(rank, "it gave up: " + Printable(std::get<tcp::GaveUp>(*message).why));
  }
  return true;
}

void PluginTransport::Broken(int rank, const std::string& why) {
  auto& peer = At(rank);
  if (peer.broken) return;
  if (!peer.plugin.up()) {
    Break(rank, why);
    return;
  }
  // That its process has ended is a better reason than what a plug-in reports then.
  last_arrivals_.Forget(rank);
  last_arrivals_.Await(rank, why, peer.plugin.leaving() ? kOrderlyArrivals : tcp::kLastArrivals);
}

void PluginTransport::Break(int rank, const std::string& why) {
  auto& peer = At(rank);
  if (peer.broken) return;
  peer.broken = true;
  last_arrivals_.Forget(rank);
  std::erase(active_, rank);
  Log(Subject::transport, "rank {}: the connection to rank {} through the net plug-in has ended: {}", rank_, rank, why);
  peer.plugin.Stop();
  events_.Broken(rank, why);
}

bool PluginTransport::AdvanceSide() {
  next_look_ = Deadline::After(kLook);
  return side_.Advance();
}

bool PluginTransport::AdvancePeers() {
  bool moved = false;
  std::vector<int> complete;  // what they sent before they leave is all here
  for (const int rank : active_) {
    auto& peer = At(rank);
    moved = peer.plugin.Advance() || moved;
    if (peer.unconfirmed > 0 && peer.plugin.all_here()) complete.push_back(rank);
  }
  // Saying something may reveal that a peer is gone, which changes who is active.
  for (const int rank : complete) {
    for (auto& left = At(rank).unconfirmed; left > 0; --left) Say(rank, Heard{});
  }
  return moved;
}

// Handles peers whose connections have failed. If a process has ended, the side channel has the better reason.
bool PluginTransport::AdvanceTroubles() {
  if (troubled_.empty()) return false;
  for (const int rank : std::exchange(troubled_, {})) {
    const auto& peer = At(rank);
    if (peer.broken) continue;
    Say(rank, tcp::GaveUp{peer.plugin.why()});
    last_arrivals_.Await(rank, peer.plugin.why(), peer.plugin.leaving() ? kOrderlyArrivals : tcp::kLastArrivals);
  }
  AdvanceSide();
  return true;
}

bool PluginTransport::AdvanceEnds() {
  if (last_arrivals_.empty()) return false;
  const auto over =
      last_arrivals_.Over([this](int rank) { return At(rank).plugin.all_here() && At(rank).plugin.ended(); });
  for (const int rank : over) Break(rank, std::string(*last_arrivals_.Why(rank)));
  return !over.empty();
}

bool PluginTransport::Advance() {
  bool moved = false;
  if (closed_ || ++polls_ % kPollsPerLook == 0 || next_look_.Passed()) moved = AdvanceSide();
  moved = AdvancePeers() || moved;
  moved = AdvanceTroubles() || moved;
  moved = AdvanceEnds() || moved;
  if (moved) nap_ = kFirstNap;
  return moved;
}

bool PluginTransport::PrepareToSleep() {
  if (AdvanceSide() || AdvancePeers() || !troubled_.empty()) {
    nap_ = kFirstNap;
    return false;
  }
  // Setting it also takes back that it has rung. Without peers there is nothing to ask for.
  itimerspec when{};
  if (!active_.empty()) when.it_value.tv_nsec = std::chrono::nanoseconds(nap_).count();
  nap_ = std::min(2 * nap_, kLongestNap);
  return timerfd_settime(alarm_.get(), 0, &when, nullptr) == 0;
}

Deadline::Milliseconds PluginTransport::LongestWait() const {
  return last_arrivals_.empty() ? side_.LongestWait() : std::min(tcp::kLookForArrivals, side_.LongestWait());
}

void PluginTransport::Register(const std::byte* begin, std::size_t bytes) {
  if (bytes == 0 || user_ranges_.Find(begin, bytes) != nullptr) return;
  // What is registered is only read, but the plug-ins' interface has no const.
  user_ranges_.Add(begin, bytes, std::make_shared<const UserRange>(UserRange{const_cast<std::byte*>(begin), bytes}));
}

void PluginTransport::Deregister(const std::byte* begin, std::size_t bytes) {
  user_ranges_.Remove(begin, bytes);
  for (const int rank : active_) At(rank).plugin.DropRanges();
}

void PluginTransport::Abandon(int rank) {
  Break(rank, "this rank has failed, and takes back the memory that it was sending");
}

void PluginTransport::Close() {
  side_.Close();
  patience_ = Deadline::After(kPatience);
  closed_ = true;
  for (std::size_t at = 0; at < peers_.size(); ++at) {
    if (peers_[at] == nullptr || peers_[at]->broken) continue;
    const auto rank = static_cast<int>(at);
    auto& peer = peers_[at]->plugin;
    if (peer.sending()) {
      SayLeaving(rank);
      peer.End();
    } else {
      for (auto& message : peer.TakeWaiting()) Say(rank, tcp::Forwarded{std::move(message)});
    }
  }
}

bool PluginTransport::Delivered(int rank) const {
  const auto& peer = At(rank);
  if (peer.broken) return true;
  const bool confirmed = peer.unheard == 0 || patience_.Passed();
  return peer.plugin.settled() && side_.Delivered(rank) && confirmed;
}

}  // namespace tutti::plugin
