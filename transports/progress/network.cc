#include "transports/progress/network.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/file_descriptor.h"

namespace tutti::progress {
namespace {

// How long a failed rank keeps trying to report its failure where the network does not accept it at once.
constexpr Deadline::Milliseconds kLastWords{400};
// How long a leaving rank waits for what it sent to arrive. A peer that has not taken it by then is stuck or gone, and
// the system keeps trying for a while.
constexpr Deadline::Milliseconds kLongestLeave{5'000};
constexpr std::chrono::microseconds kLeaveNap{50};
// More than the system keeps for one socket by default. A peer that rings without an end keeps nobody here.
constexpr int kMostRings = 16;
// The longest sleep of a thread that has no bell.
constexpr std::chrono::microseconds kUnheardSleep{500};

}  // namespace

NetworkEngine::NetworkEngine(shm::Fabric& fabric, const std::vector<int>& peers, const MakeTransport& make,
                             const PolledRings& polled)
    : fabric_(fabric), peers_(static_cast<std::size_t>(fabric.nranks())) {
  for (const int rank : peers) {
    peers_[static_cast<std::size_t>(rank)] =
        std::make_unique<NetworkPeer>(fabric, rank, polled ? polled(rank) : std::vector<ConnectionRings>());
  }
  transport_ = make(*this);
  if (!transport_->lands_in_place()) return;
  for (const int rank : peers) Peer(rank).AllowRunAhead();
}

NetworkEngine::~NetworkEngine() = default;

void NetworkEngine::Activate(NetworkPeer& peer) {
  if (std::find(active_.begin(), active_.end(), &peer) == active_.end()) active_.push_back(&peer);
}

void NetworkEngine::Need(int rank) {
  const std::lock_guard lock(mutex_);
  Activate(Peer(rank));
  transport_->Connect(rank);
}

void NetworkEngine::NeedPolled(int rank, int index) {
  const std::lock_guard lock(mutex_);
  const auto connection = Peer(rank).Poll(static_cast<std::uint32_t>(index));
  Activate(Peer(rank));
  transport_->Connect(rank);
  transport_->Use(rank, connection);
}

void NetworkEngine::NeedAll() {
  const std::lock_guard lock(mutex_);
  for (const auto& peer : peers_) {
    if (peer == nullptr || peer->lost || peer->left) continue;
    Activate(*peer);
    transport_->Connect(peer->rank());
  }
}

// A thread that finds another one at work here continues with its own channels. The slots it has filled go out at its
// next call: it neither leaves nor sleeps before it has had the lock.
bool NetworkEngine::Progress() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  const bool moved = Advance();
  RingForNews();
  return moved;
}

bool NetworkEngine::Push() {
  const std::lock_guard lock(mutex_);
  const bool moved = PumpSlots();
  PumpCredits();
  RingForNews();
  return moved;
}

bool NetworkEngine::Expect(int peer, std::span<const Expected> slots) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  for (const auto& [slot, destination] : slots) Peer(peer).Expect(slot, destination);
  return true;
}

void NetworkEngine::RingBells(int but) {
  for (std::size_t i = 0; i < bells_.size(); ++i) {
    auto& bell = bells_[i];
    if (!bell.taken || bell.rung || static_cast<int>(i) == but) continue;
    bell.rung = true;
    const std::uint64_t once = 1;
    [[maybe_unused]] const auto written = write(bell.event.get(), &once, sizeof once);
  }
}

void NetworkEngine::RingForNews() {
  if (news_) RingBells();
  news_ = false;
}

bool NetworkEngine::PumpSlots() {
  bool moved = false;
  for (auto* peer : active_) moved = (!peer->lost && peer->PumpSlots(*transport_)) || moved;
  return moved;
}

void NetworkEngine::PumpCredits() {
  for (auto* peer : active_) {
    if (!peer->lost && peer->PumpCredits(*transport_, Tell::due)) transport_->Flush(peer->rank());
  }
}

bool NetworkEngine::ShowKept() {
  bool shown = false;
  for (auto* peer : active_) shown = peer->ShowKept() || shown;
  news_ = news_ || shown;
  return shown;
}

bool NetworkEngine::Advance() {
  bool moved = PumpSlots();
  moved = transport_->Advance() || moved;
  moved = ShowKept() || moved;
  PumpCredits();
  return moved;
}

template <typename Do>
void NetworkEngine::ForHearing(Do&& say) {
  for (auto* peer : active_) {
    if (peer->lost || peer->left) continue;
    say(*peer);
    transport_->Flush(peer->rank());
  }
}

void NetworkEngine::Announce() {
  const std::lock_guard lock(mutex_);
  ForHearing([&](NetworkPeer& peer) { peer.Announce(*transport_); });
  RingForNews();
}

void NetworkEngine::LookForSilence() {
  const std::lock_guard lock(mutex_);
  transport_->LookForSilence();
}

int NetworkEngine::TakeBell() {
  const std::lock_guard lock(mutex_);
  const auto free = std::ranges::find(bells_, false, &Bell::taken);
  const auto index = free - bells_.begin();
  // Without a descriptor (the process may have none left) the thread sleeps in short naps.
  if (free == bells_.end()) bells_.push_back({FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))});
  bells_[static_cast<std::size_t>(index)].taken = true;
  return static_cast<int>(index);
}

void NetworkEngine::ReturnBell(int index) {
  const std::lock_guard lock(mutex_);
  auto& bell = bells_[static_cast<std::size_t>(index)];
  bell.taken = false;
  if (!std::exchange(bell.rung, false)) return;
  std::uint64_t rings;
  [[maybe_unused]] const auto got = read(bell.event.get(), &rings, sizeof rings);
}

bool NetworkEngine::Sleep(int bell, std::chrono::microseconds limit) {
  std::array<pollfd, 3> fds;
  bool shortened = false;  // the thread looks again before `limit`, rung or not
  {
    const std::lock_guard lock(mutex_);
    const bool moved = Advance();
    // Small credits wait for a message to travel with; a sleeping thread sends none.
    ForHearing([&](NetworkPeer& peer) { peer.PumpCredits(*transport_, Tell::all); });
    RingForNews();
    if (moved || !transport_->PrepareToSleep()) return true;
    const auto& own = bells_[static_cast<std::size_t>(bell)].event;
    fds = {pollfd{fabric_.hearing(), POLLIN, 0}, pollfd{own.get(), POLLIN, 0},
           pollfd{transport_->descriptor(), POLLIN, 0}};
    const auto most = std::min<std::chrono::microseconds>(transport_->LongestWait(), own ? limit : kUnheardSleep);
    shortened = most < limit;
    limit = std::min(limit, most);
  }
  const timespec time{limit.count() / 1'000'000, limit.count() % 1'000'000 * 1000};
  const bool rung = ppoll(fds.data(), fds.size(), &time, nullptr) != 0;
  if (rung && fds[0].revents != 0) {
    const std::lock_guard lock(mutex_);
    // The rings may have been meant for another thread, which now does not see them. If there is nothing to read, the
    // thread that read it has passed the ring on.
    bool heard = false;
    std::byte ring;
    for (int i = 0; i < kMostRings && recv(fds[0].fd, &ring, sizeof ring, MSG_DONTWAIT) > 0; ++i) heard = true;
    if (heard) RingBells(bell);
  }
  return rung || shortened;
}

bool NetworkEngine::Sleep(std::chrono::microseconds limit) {
  const int bell = TakeBell();
  const bool rung = Sleep(bell, limit);
  ReturnBell(bell);
  return rung;
}

void NetworkEngine::Register(const std::byte* begin, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  transport_->Register(begin, bytes);
}

void NetworkEngine::Deregister(const std::byte* begin, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  transport_->Deregister(begin, bytes);
}

std::optional<std::string> NetworkEngine::Lost(int rank) {
  const std::lock_guard lock(mutex_);
  return Peer(rank).lost;
}

bool NetworkEngine::Reaches(int rank) {
  const std::lock_guard lock(mutex_);
  return peers_[static_cast<std::size_t>(rank)] != nullptr && transport_->Reaches(rank);
}

bool NetworkEngine::Control(int rank, std::span<const std::byte> bytes) {
  auto& peer = Peer(rank);
  const auto message = DecodeNetworkMessage(bytes);
  return message && peer.Take(*message);
}

void NetworkEngine::Broken(int rank, const std::string& why) {
  auto& peer = Peer(rank);
  if (!peer.lost) peer.lost = why;
  if (peer.left) peer.AllSent();
}

template <typename Done>
void NetworkEngine::SayLast(const NetworkMessage& message, Deadline deadline, Done&& done) {
  std::vector<std::byte> bytes;
  Encode(message, bytes);
  std::size_t told = 0;
  // Includes peers that come in the meantime: `active_` grows at its end.
  const auto tell = [&] {
    for (; told < active_.size(); ++told) {
      auto& peer = *active_[told];
      if (peer.lost || peer.left) continue;
      transport_->Hurry(peer.rank());
      transport_->SendControl(peer.rank(), bytes);
      transport_->Flush(peer.rank());
    }
  };
  const auto hears = [&](NetworkPeer* peer) { return !peer->lost && !peer->left && !done(*peer); };
  for (tell(); std::any_of(active_.begin(), active_.end(), hears) && !deadline.Passed(); tell()) {
    if (!transport_->Advance()) std::this_thread::sleep_for(kLeaveNap);
  }
  // Closes only now, so that a peer whose call is under way gets the message, too.
  transport_->Close();
}

// Otherwise a rank that comes later, and was never connected to this one, would find only a closed port.
void NetworkEngine::ActivateNeighbours() {
  const std::size_t nranks = peers_.size();
  const auto rank = static_cast<std::size_t>(fabric_.rank());
  for (std::size_t distance = 1; distance < nranks; distance *= 2) {
    for (const std::size_t other : {(rank + distance) % nranks, (rank + nranks - distance) % nranks}) {
      const auto& peer = peers_[other];
      if (peer != nullptr && !peer->lost && !peer->left) Activate(*peer);
    }
  }
}

void NetworkEngine::TellFailure(tuttiResult_t code, const std::string& text, bool stopped) {
  const std::lock_guard lock(mutex_);
  ActivateNeighbours();
  const auto completed = fabric_.control(fabric_.rank()).completed.load(std::memory_order_acquire);
  SayLast(Failed{static_cast<std::uint32_t>(code), stopped ? 1U : 0U, completed, text}, Deadline::After(kLastWords),
          [&](const NetworkPeer& peer) { return transport_->Delivered(peer.rank()); });
}

// A peer that does not take what this rank sends, because it computes, would otherwise get it later, and with it what the
// caller has written there since.
void NetworkEngine::Recall() {
  const std::lock_guard lock(mutex_);
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    peer->Recall();
    if (!peer->lost && peer->Lends()) transport_->Abandon(peer->rank());
  }
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
          [&](const NetworkPeer& peer) { return transport_->Delivered(peer.rank()); });
}

}  // namespace tutti::progress
