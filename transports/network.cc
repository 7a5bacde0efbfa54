#include "transports/network.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace tutti {
namespace {

// How long a rank that failed keeps trying to say so where the network does not take it at once.
constexpr Deadline::Milliseconds kLastWords{200};
// How long a rank that leaves waits for what it sent to arrive. Who has not taken it by then is stuck or gone, and the
// system goes on trying for a while.
constexpr Deadline::Milliseconds kLongestLeave{5'000};
constexpr std::chrono::microseconds kLeaveNap{50};

}  // namespace

NetworkEngine::NetworkEngine(Fabric& fabric, const std::vector<int>& peers, const MakeCarrier& make,
                             const PolledRings& polled)
    : fabric_(fabric), peers_(static_cast<std::size_t>(fabric.nranks())) {
  for (const int rank : peers) {
    peers_[static_cast<std::size_t>(rank)] =
        std::make_unique<NetworkPeer>(fabric, rank, polled ? polled(rank) : std::vector<ConnectionRings>());
  }
  carrier_ = make(*this);
  fabric_.UseNetwork(this);
}

NetworkEngine::~NetworkEngine() { fabric_.UseNetwork(nullptr); }

void NetworkEngine::Activate(NetworkPeer& peer) {
  if (std::find(active_.begin(), active_.end(), &peer) == active_.end()) active_.push_back(&peer);
}

void NetworkEngine::Need(int rank) {
  const std::lock_guard lock(mutex_);
  Activate(Peer(rank));
  carrier_->Connect(rank);
}

bool NetworkEngine::Progress() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock && Advance();
}

bool NetworkEngine::Push() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  const bool moved = PumpSlots();
  PumpCredits();
  return moved;
}

bool NetworkEngine::PumpSlots() {
  bool moved = false;
  for (auto* peer : active_) moved = (!peer->lost && peer->PumpSlots(*carrier_)) || moved;
  return moved;
}

void NetworkEngine::PumpCredits() {
  for (auto* peer : active_) {
    if (!peer->lost && peer->PumpCredits(*carrier_, Tell::due)) carrier_->Flush(peer->rank());
  }
}

bool NetworkEngine::Advance() {
  bool moved = PumpSlots();
  moved = carrier_->Advance() || moved;
  PumpCredits();
  return moved;
}

template <typename Do>
void NetworkEngine::ForHearing(Do&& say) {
  for (auto* peer : active_) {
    if (peer->lost || peer->left) continue;
    say(*peer);
    carrier_->Flush(peer->rank());
  }
}

void NetworkEngine::Announce() {
  const std::lock_guard lock(mutex_);
  ForHearing([&](NetworkPeer& peer) { peer.Announce(*carrier_); });
}

void NetworkEngine::LookForSilence() {
  const std::lock_guard lock(mutex_);
  carrier_->LookForSilence();
}

void NetworkEngine::Sleep(std::chrono::microseconds limit) {
  std::array<pollfd, 2> fds;
  {
    const std::lock_guard lock(mutex_);
    // Small credits wait for a message to travel with; who sleeps has none.
    ForHearing([&](NetworkPeer& peer) { peer.PumpCredits(*carrier_, Tell::all); });
    if (!carrier_->PrepareToSleep()) return;
    fds = {pollfd{fabric_.bell(fabric_.rank()), POLLIN, 0}, pollfd{carrier_->descriptor(), POLLIN, 0}};
    limit = std::min<std::chrono::microseconds>(limit, carrier_->LongestWait());
  }
  const timespec time{limit.count() / 1'000'000, limit.count() % 1'000'000 * 1000};
  if (ppoll(fds.data(), fds.size(), &time, nullptr) > 0 && fds[0].revents != 0) {
    std::uint64_t rings;
    [[maybe_unused]] const auto got = read(fds[0].fd, &rings, sizeof rings);  // somebody else may have read it
  }
}

void NetworkEngine::Register(const std::byte* begin, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  carrier_->Register(begin, bytes);
}

void NetworkEngine::Deregister(const std::byte* begin, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  carrier_->Deregister(begin, bytes);
}

std::optional<std::string> NetworkEngine::Lost(int rank) {
  const std::lock_guard lock(mutex_);
  return Peer(rank).lost;
}

bool NetworkEngine::Control(int rank, std::span<const std::byte> bytes) {
  auto& peer = Peer(rank);
  const auto message = DecodeNetworkMessage(bytes);
  return message && peer.Take(*message);
}

void NetworkEngine::Broken(int rank, const std::string& why) {
  auto& peer = Peer(rank);
  if (!peer.lost) peer.lost = why;
}

template <typename Done>
void NetworkEngine::SayLast(const NetworkMessage& message, Deadline deadline, Done&& done) {
  std::vector<std::byte> bytes;
  Encode(message, bytes);
  ForHearing([&](NetworkPeer& peer) { carrier_->SendControl(peer.rank(), bytes); });
  carrier_->Close();
  const auto hears = [&](NetworkPeer* peer) { return !peer->lost && !peer->left && !done(*peer); };
  while (std::any_of(active_.begin(), active_.end(), hears) && !deadline.Passed()) {
    if (!carrier_->Advance()) std::this_thread::sleep_for(kLeaveNap);
  }
}

void NetworkEngine::TellFailure(tuttiResult_t code, const std::string& text) {
  const std::lock_guard lock(mutex_);
  SayLast(Failed{static_cast<std::uint32_t>(code), text}, Deadline::After(kLastWords),
          [&](const NetworkPeer& peer) { return carrier_->Delivered(peer.rank()); });
}

void NetworkEngine::Leave() {
  const std::lock_guard lock(mutex_);
  const auto filled = Deadline::After(kLongestLeave);
  const auto waits = [](NetworkPeer* peer) { return !peer->lost && !peer->left && peer->HasFilled(); };
  while (std::any_of(active_.begin(), active_.end(), waits) && !filled.Passed()) {
    if (!Advance()) std::this_thread::sleep_for(kLeaveNap);
  }
  const auto completed = fabric_.control(fabric_.rank()).completed.load(std::memory_order_relaxed);
  SayLast(Leaving{completed}, Deadline::After(kLongestLeave),
          [&](const NetworkPeer& peer) { return carrier_->Delivered(peer.rank()); });
}

}  // namespace tutti
