#include "transports/tcp/tcp.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/log.h"
#include "transports/tcp/interfaces.h"
#include "transports/tcp/listening.h"

namespace tutti::tcp {
namespace {

// While this rank dials, its sleeps are short, because those descriptors are not watched.
constexpr Deadline::Milliseconds kLightSleep{2};
constexpr Deadline::Milliseconds kDeepSleep{1'000};
// While a silent peer is being called.
constexpr Deadline::Milliseconds kCallLook{20};
// After the end of a peer's first connection: how long others still being made may take on a busy machine.
constexpr Deadline::Milliseconds kLastConnections{50};
constexpr int kEvents = 64;
// Sending a slot this long takes longer than asking the system about a connection.
constexpr std::uint32_t kWorthALook = 8192;

}  // namespace

TcpTransport::TcpTransport(int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                           const Settings& settings, const AllGather& all_gather,
                           progress::NetworkTransportEvents& events)
    : rank_(rank),
      silence_(settings.silence_ms),
      key_(key),
      protection_(ProtectionOf(settings.data_protection)),
      events_(events),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      next_look_(Deadline::After(kSilenceLook)) {
  if (!epoll_) ThrowErrno("epoll_create1");
  std::vector<net::SocketAddress> places;
  for (const auto& interface : InterfacesOf(settings)) places.push_back(interface.address);
  auto port = auth::Port::At(places, fmt::format("rank {}", rank));
  // Served before the others learn of it.
  keeper_.emplace(port, key, auth::Purpose::data, rank);
  const auto addresses = GatherAddresses(all_gather, port->addresses());
  nranks_ = static_cast<int>(addresses.size());
  if (!Watched(keeper_->descriptor(), EPOLLIN, EPOLL_CTL_ADD, kNewcomer)) ThrowErrno("epoll_ctl");
  own_ = addresses[static_cast<std::size_t>(rank)];
  std::size_t interfaces = own_.size();
  for (const int peer : peers) {
    peers_[peer].addresses = addresses[static_cast<std::size_t>(peer)];
    interfaces = std::min(interfaces, peers_[peer].addresses.size());
  }
  connections_to_each_ = settings.sockets != 0 ? settings.sockets : static_cast<int>(interfaces);
  Log(Subject::transport, "rank {}: tcp to {} ranks, {} connections each, listening on {}; {}", rank, peers.size(),
      connections_to_each_, net::TextOf(own_),
      protection_ == DataProtection::none ? "nothing is protected" : "AES-256-GCM by " + NameOfFastestGcm());
}

TcpTransport::~TcpTransport() = default;

bool TcpTransport::Watched(int fd, std::uint32_t events, int operation, std::uint64_t who) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = who;
  return epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
}

int TcpTransport::Room(int rank) const {
  const auto* const connection = Shortest(At(rank).connections, false);
  return connection == nullptr ? 0
                               : static_cast<int>(TcpStream::kMaxSlots -
                                                  std::min(TcpStream::kMaxSlots, connection->stream.slots_queued()));
}

void TcpTransport::Send(int rank, const progress::SlotMessage& message, const std::byte* data) {
  Shortest(At(rank).connections, message.bytes >= kWorthALook)->stream.QueueSlot(message, data);
}

void TcpTransport::SendControl(int rank, std::span<const std::byte> message) {
  auto& peer = At(rank);
  if (peer.broken) return;
  if (auto* const connection = Shortest(peer.connections, false)) {
    connection->stream.QueueControl(message);
  } else {
    peer.messages.emplace_back(message.begin(), message.end());
  }
}

void TcpTransport::FlushConnection(int rank, TcpConnection& connection) {
  if (!connection.stream.Flush(events_)) {
    NoteEnd(rank, connection.stream.why());
    return;
  }
  const bool wants_out = connection.stream.bytes_queued() > 0;
  if (wants_out == connection.wants_out) return;
  connection.wants_out = wants_out;
  const auto& connections = At(rank).connections;
  const auto at = std::ranges::find(connections, &connection, [](const auto& each) { return each.get(); });
  if (!Watched(connection.stream.socket().fd(), wants_out ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD,
               WhoIs(rank, static_cast<std::size_t>(at - connections.begin())))) {
    NoteEnd(rank, kNotWatched);
  }
}

void TcpTransport::Flush(int rank) {
  auto& peer = At(rank);
  for (std::size_t i = 0; i < peer.connections.size() && !peer.broken; ++i) {
    // Where the system has not taken everything, epoll reports when it takes more.
    if (!peer.connections[i]->wants_out) FlushConnection(rank, *peer.connections[i]);
  }
}

bool TcpTransport::AdvanceConnection(std::uint64_t who, std::uint32_t events) {
  const int rank = static_cast<int>(who & 0xffffffff);
  const std::size_t index = who >> 32;
  auto& peer = At(rank);
  if (index >= peer.connections.size()) return false;  // broken a moment ago
  auto& connection = *peer.connections[index];
  bool moved = false;
  if ((events & EPOLLOUT) != 0) {
    FlushConnection(rank, connection);
    moved = true;
  }
  if ((events & EPOLLERR) != 0) moved = connection.stream.Reap(events_) || moved;
  if (peer.broken || (events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0) return moved;
  bool received = false;
  const bool open = connection.stream.Receive(events_, received);
  if (received) hot_.Received(who);
  if (!open) NoteEnd(rank, connection.stream.why());
  return moved || received;
}

// The peer's other connections may still carry data that it sent before it left. Some may not even be proven here yet,
// although the peer has sent on them: both ranks dial, and each end proves a connection by itself. So the peer's end is
// accepted only after these were checked (EndPeers).
void TcpTransport::NoteEnd(int rank, std::string why) {
  auto& peer = At(rank);
  if (peer.broken || peer.ending) return;
  peer.ending = Ending{std::move(why), Deadline::After(kLastConnections)};
  ending_.push_back(rank);
}

// The peer may have proven such a connection, and sent on it.
bool TcpTransport::ConnectionsAreMade(const Peer& peer) const {
  const auto calls = [](const Dialling& dial) { return dial.attempt && dial.attempt->handshake; };
  return (keeper_ && keeper_->proving()) || std::ranges::any_of(peer.dials, calls);
}

// Breaks with peers that have ended. Data that has arrived still counts, and so do the system's notices about slots: a
// peer that left in order may have sent its part without taking what this rank sends. REQUIRES: the dials were advanced
// since the last look.
bool TcpTransport::EndPeers() {
  bool ended = false;
  for (std::size_t e = 0; e < ending_.size(); ++e) {  // the loop may add more
    const int rank = ending_[e];
    auto& peer = At(rank);
    if (peer.broken || (ConnectionsAreMade(peer) && !peer.ending->until.Passed())) continue;
    if (keeper_) AdmitCallers();
    for (std::size_t i = 0; i < peer.connections.size(); ++i) {
      auto& stream = peer.connections[i]->stream;
      stream.Reap(events_);
      for (bool more = true; more;) {
        more = false;
        if (!stream.Receive(events_, more)) break;
      }
    }
    Break(rank, peer.ending->why);
    ended = true;
  }
  std::erase_if(ending_, [&](int rank) { return At(rank).broken; });
  return ended;
}

void TcpTransport::Break(int rank, std::string why) {
  auto& peer = At(rank);
  if (peer.broken) return;
  peer.broken = true;
  peer.dial_at.reset();
  peer.messages.clear();
  for (const auto& connection : peer.connections) {
    const auto& socket = connection->stream.socket();
    Watched(socket.fd(), 0, EPOLL_CTL_DEL, 0);
    // The cause may be over in a moment, so the peer, too, must learn that this is the end.
    socket.Shutdown();
  }
  // The connections themselves may be in use further up the stack; they are destroyed with this.
  events_.Broken(rank, why);
}

bool TcpTransport::Advance() {
  if (const auto hot = hot_.Next()) {
    const bool moved = AdvanceConnection(*hot, EPOLLIN);
    if (!moved) hot_.Missed();
    return moved;
  }
  return AdvanceAll();
}

bool TcpTransport::AdvanceAll() {
  bool moved = false;
  std::array<epoll_event, kEvents> events;
  const int count = epoll_wait(epoll_.get(), events.data(), kEvents, 0);
  for (int i = 0; i < count; ++i) {
    const auto who = events[static_cast<std::size_t>(i)].data.u64;
    if (who == kNewcomer) {
      moved = (keeper_ && AdmitCallers()) || moved;
    } else {
      moved = AdvanceConnection(who, events[static_cast<std::size_t>(i)].events) || moved;
    }
  }
  for (const int rank : dialling_) {
    auto& peer = At(rank);
    if (peer.dial_at && peer.dial_at->Passed()) {
      peer.dial_at.reset();
      if (peer.connections.empty()) Dial(rank, 0, 1);
    }
    moved = AdvanceDials(rank) || moved;
  }
  std::erase_if(dialling_, [&](int rank) { return At(rank).dials.empty() && !At(rank).dial_at; });
  return EndPeers() || moved;
}

void TcpTransport::LookForSilence() {
  if (!next_look_.Passed()) return;
  next_look_ = Deadline::After(kSilenceLook);
  for (auto& [rank, peer] : peers_) {
    if (peer.broken) continue;
    for (const auto& connection : peer.connections) {
      auto why = connection->silence.Look(connection->stream.socket(), peer.addresses, silence_);
      if (connection->silence.calling()) next_look_ = Deadline::After(kCallLook);
      if (!why) continue;
      Break(rank, std::move(*why));
      break;
    }
    for (auto& dial : peer.dials) {
      if (!dial.attempt || !dial.attempt->handshake) continue;
      if (const auto ms = progress::Silence(dial.attempt->handshake->socket(), silence_)) {
        const auto address = peer.addresses[dial.attempt->address].Text();
        Missed(peer, dial, true, fmt::format("{} has not answered for {} ms", address, *ms));
      }
    }
  }
}

Deadline::Milliseconds TcpTransport::LongestWait() const { return dialling_.empty() ? kDeepSleep : kLightSleep; }

void TcpTransport::Abandon(int rank) {
  auto& peer = At(rank);
  for (const auto& connection : peer.connections) connection->stream.socket().Abort();
  Break(rank, "this rank has failed, and takes back the memory that it was sending");
}

void TcpTransport::Close() {
  if (!keeper_) return;
  // A forked child may hold a copy, which would keep it watched.
  Watched(keeper_->descriptor(), 0, EPOLL_CTL_DEL, 0);
  keeper_.reset();
}

bool TcpTransport::Reaches(int rank) const {
  const auto& peer = At(rank);
  return !peer.broken && std::ranges::any_of(peer.connections, [this](const auto& connection) {
    return progress::Answers(connection->stream.socket(), silence_);
  });
}

bool TcpTransport::Delivered(int rank) const {
  const auto& peer = At(rank);
  if (peer.broken) return true;
  if (peer.connections.empty()) return peer.messages.empty();
  return std::ranges::all_of(peer.connections,
                             [](const auto& connection) { return connection->stream.bytes_on_the_way() == 0; });
}

}  // namespace tutti::tcp
