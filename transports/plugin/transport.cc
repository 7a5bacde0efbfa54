#include "transports/plugin/transport.h"

#include <fmt/format.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/log.h"
#include "base/plain_text.h"
#include "transports/plugin/plugin.h"

namespace tutti::plugin {
namespace {

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

// Returns the nearest of the fastest devices. Where none is known to be near, ranks take the fastest ones in turn.
const Device& DeviceFor(const Library& library, int rank, const std::vector<std::string>& nics) {
  const auto& all = library.devices();
  const std::span fastest(all.begin(),
                          static_cast<std::size_t>(std::ranges::count(all, all.front().speed, &Device::speed)));
  for (const auto& nic : nics) {
    const auto found = std::ranges::find(fastest, nic, &Device::name);
    if (found != fastest.end()) return *found;
  }
  return fastest[static_cast<std::size_t>(rank) % fastest.size()];
}

std::string WhyNot(const Settings& settings) {
  try {
    LoadPlugin(settings);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// The plug-in and its devices.
std::string Describe(const Settings& settings) {
  const auto library = LoadPlugin(settings);
  std::string text = library->Name();
  for (const auto& device : library->devices())
    text += fmt::format(", {} at {} Mbit/s", Printable(device.name), device.speed);
  return text;
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
                                 const Settings& settings, const std::vector<std::string>& nics,
                                 const AllGather& all_gather, progress::NetworkTransportEvents& events)
    : PluginTransport(
          [&] {
            auto library = LoadPlugin(settings);
            const auto communicator = Agree(*library, all_gather);
            return std::make_shared<const Context>(std::move(library), communicator);
          }(),
          rank, peers, key, settings, nics, all_gather, events) {}

PluginTransport::PluginTransport(std::shared_ptr<const Context> context, int rank, const std::vector<int>& peers,
                                 const auth::SecretKey& key, const Settings& settings,
                                 const std::vector<std::string>& nics, const AllGather& all_gather,
                                 progress::NetworkTransportEvents& events)
    : side::Transport("the net plug-in", rank, peers, key, settings, all_gather, events, kPatience),
      context_(std::move(context)),
      device_(DeviceFor(context_->library(), rank, nics)),
      alarm_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      nap_(kFirstNap) {
  if (!alarm_) ThrowErrno("timerfd_create");
  channel().Watch(alarm_.get());
  const Outbox::Shared out{context_->library(), context_->get(), device_.index, events, user_ranges_};
  for (const int peer : peers) Add(std::make_unique<Peer>(peer, shared(), out, device_, context_));
  Log(Subject::transport, "rank {}: {} to {} ranks, over its device {} ({} Mbit/s, {} connections)", rank,
      context_->library().Name(), peers.size(), Printable(device_.name), device_.speed, device_.most_connections);
}

PluginTransport::~PluginTransport() {
  while (AwaitsPeers()) {
    if (!Advance()) std::this_thread::sleep_for(kLeaveNap);
  }
  CloseChannel();
  DropPeers();
}

double PluginTransport::bandwidth() const {
  constexpr double kMbitPerGB = 8'000;
  return device_.speed / kMbitPerGB;
}

bool PluginTransport::Move() {
  bool moved = false;
  for (const int rank : active()) moved = static_cast<Peer&>(Own(rank)).Advance() || moved;
  if (moved) nap_ = kFirstNap;
  return moved;
}

bool PluginTransport::Arm() {
  if (Move()) return false;
  // Setting it also takes back that it has rung. Without peers there is nothing to ask for.
  itimerspec when{};
  const bool asks =
      std::ranges::any_of(active(), [this](int rank) { return static_cast<Peer&>(Own(rank)).listening(); });
  if (asks) when.it_value.tv_nsec = std::chrono::nanoseconds(nap_).count();
  nap_ = std::min(2 * nap_, kLongestNap);
  return timerfd_settime(alarm_.get(), 0, &when, nullptr) == 0;
}

void PluginTransport::Register(const std::byte* begin, std::size_t bytes) {
  if (bytes == 0 || user_ranges_.Find(begin, bytes) != nullptr) return;
  // What is registered is only read, but the plug-ins' interface has no const.
  user_ranges_.Add(begin, bytes, std::make_shared<const UserRange>(UserRange{const_cast<std::byte*>(begin), bytes}));
}

void PluginTransport::Deregister(const std::byte* begin, std::size_t bytes) {
  user_ranges_.Remove(begin, bytes);
  for (const int rank : active()) static_cast<Peer&>(Own(rank)).DropRanges();
}

constexpr progress::NetworkKind kNetwork{
    tuttiTransportPlugin, "plugin", false, &WhyNot, &Describe, &progress::MakeByNics<PluginTransport>};

}  // namespace tutti::plugin
