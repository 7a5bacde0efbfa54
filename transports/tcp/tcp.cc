#include "transports/tcp/tcp.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "transports/tcp/interfaces.h"
#include "transports/tcp/listening.h"

namespace tutti::tcp {
namespace {

// An address that has not answered by then makes way for the next; earlier if the silence limit would end the dial
// before each address has had its turn.
constexpr Deadline::Milliseconds kAttemptTime{3'000};
// Between rounds over all addresses.
constexpr Deadline::Milliseconds kRetryPause{50};
// How long the higher rank waits for the lower one's call.
constexpr Deadline::Milliseconds kCallPatience{1'000};
// While this rank dials, its sleeps are short, because those descriptors are not watched.
constexpr Deadline::Milliseconds kLightSleep{2};
constexpr Deadline::Milliseconds kDeepSleep{1'000};
constexpr Deadline::Milliseconds kSilenceLook{500};
// While a silent peer is being called.
constexpr Deadline::Milliseconds kCallLook{20};
// After the end of a peer's first connection: how long others still being made may take on a busy machine.
constexpr Deadline::Milliseconds kLastConnections{50};
constexpr int kEvents = 64;
// Sending a slot this long takes longer than asking the system about a connection.
constexpr std::uint32_t kWorthALook = 8192;

// epoll's data: a peer's rank and the index of its connection; or this.
constexpr std::uint64_t kNewcomer = ~std::uint64_t{0};
constexpr std::uint64_t WhoIs(int rank, std::size_t line) {
  return std::uint64_t{line} << 32 | static_cast<std::uint32_t>(rank);
}

}  // namespace

TcpTransport::TcpTransport(int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                           const Settings& settings, const shm::AllGather& all_gather,
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
  auto listeners = net::ListenOnAll(places, fmt::format("rank {}", rank));
  const auto addresses = GatherAddresses(all_gather, listeners);
  nranks_ = static_cast<int>(addresses.size());
  keeper_.emplace(std::move(listeners), key, auth::Purpose::data, rank);
  Watched(keeper_->descriptor(), EPOLLIN, EPOLL_CTL_ADD, kNewcomer);
  own_ = addresses[static_cast<std::size_t>(rank)];
  std::size_t interfaces = own_.size();
  for (const int peer : peers) {
    peers_[peer].addresses = addresses[static_cast<std::size_t>(peer)];
    interfaces = std::min(interfaces, peers_[peer].addresses.size());
  }
  connections_ = settings.sockets != 0 ? settings.sockets : static_cast<int>(interfaces);
  Log(Subject::transport, "rank {}: tcp to {} ranks, {} connections each, listening on {}", rank, peers.size(),
      connections_, net::TextOf(own_));
}

TcpTransport::~TcpTransport() = default;

bool TcpTransport::Watched(int fd, std::uint32_t events, int operation, std::uint64_t who) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = who;
  return epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
}

void TcpTransport::Connect(int rank) {
  auto& peer = At(rank);
  if (peer.wanted || peer.broken) return;
  peer.wanted = true;
  if (!peer.lines.empty()) return;  // the peer was first
  if (rank_ < rank) {
    Dial(rank, static_cast<std::size_t>(connections_));
  } else {
    peer.dial_at = Deadline::After(kCallPatience);
    dialling_.push_back(rank);
  }
}

void TcpTransport::Hurry(int rank) {
  Connect(rank);
  auto& peer = At(rank);
  if (peer.dial_at) peer.dial_at = Deadline::After({});
}

void TcpTransport::Dial(int rank, std::size_t connections) {
  auto& peer = At(rank);
  peer.give_up = Deadline::After(silence_);
  for (std::size_t i = 0; i < connections; ++i) {
    peer.dials.push_back({.first = i, .attempt = std::nullopt, .retry = Deadline::After({})});
  }
  if (std::ranges::find(dialling_, rank) == dialling_.end()) dialling_.push_back(rank);
  AdvanceDials(rank);
}

void TcpTransport::BeginAttempt(int rank, Dialling& dial) {
  auto& peer = At(rank);
  const std::size_t index = (dial.first + dial.tried) % peer.addresses.size();
  const auto& address = peer.addresses[index];
  auto result = net::StartConnect(address);
  if (!result.socket) {
    Missed(peer, dial, true, fmt::format("{}: {}", address.Text(), std::generic_category().message(result.error)));
    return;
  }
  const auto turn = silence_ / static_cast<int>(peer.addresses.size() + 1);
  const auto deadline = Deadline::After(std::min<Deadline::Milliseconds>(kAttemptTime, turn));
  dial.attempt.emplace(Attempt{std::move(result.socket), std::nullopt, index, deadline});
}

// `alive`: a later attempt may succeed. Otherwise no process listens there any more.
void TcpTransport::Missed(Peer& peer, Dialling& dial, bool alive, const std::string& reason) {
  peer.reason = reason;
  dial.alive = dial.alive || alive;
  dial.attempt.reset();
  if (++dial.tried % peer.addresses.size() == 0) {
    dial.retry = Deadline::After(kRetryPause);
    // The port was open before this rank learned of it, so it is closed for good.
    if (!dial.alive) {
      peer.nobody = true;
      peer.give_up = Deadline::After({});
    }
    dial.alive = false;
  }
}

// True: something happened.
bool TcpTransport::AdvanceDial(int rank, Dialling& dial) {
  auto& peer = At(rank);
  if (!dial.attempt) {
    if (!dial.retry.Passed()) return false;
    BeginAttempt(rank, dial);
    return true;
  }
  auto& attempt = *dial.attempt;
  const auto address = peer.addresses[attempt.address].Text();
  if (!attempt.handshake) {
    pollfd fd{attempt.socket.fd(), POLLOUT, 0};
    if (poll(&fd, 1, 0) > 0) {
      const int error = net::ConnectError(attempt.socket);
      if (error != 0) {
        Missed(peer, dial, error != ECONNREFUSED,
               fmt::format("{}: {}", address, std::generic_category().message(error)));
        return true;
      }
      net::KeepAlive(attempt.socket, silence_);
      attempt.handshake.emplace(std::move(attempt.socket), auth::Errand{auth::Purpose::data, rank_, rank, nranks_});
      peer.give_up = Deadline::After(silence_);  // its system answers
    } else if (attempt.deadline.Passed()) {
      Missed(peer, dial, true, address + " does not answer");
      return true;
    } else {
      return false;
    }
  }
  switch (attempt.handshake->Advance(key_)) {
    // No deadline: a peer that does not look at its port may be busy. It is dead only if its system is.
    case auth::ClientHandshake::State::waiting: return false;
    case auth::ClientHandshake::State::proven:
      Add(rank, attempt.handshake->TakeSocket(), attempt.handshake->keys().client_to_server,
          attempt.handshake->keys().server_to_client);
      dial.attempt.reset();
      break;
    // The peer may have closed it only to make room for others.
    case auth::ClientHandshake::State::dropped: Missed(peer, dial, true, address + " closed the connection"); break;
    case auth::ClientHandshake::State::foreign: Missed(peer, dial, false, address + " is no port of Tutti's"); break;
    case auth::ClientHandshake::State::stranger:
      Missed(peer, dial, false, address + " answers with another secret");
      break;
    case auth::ClientHandshake::State::misled:
      Missed(peer, dial, false, fmt::format("{} answers for rank {}", address, attempt.handshake->answers_for()));
      break;
    case auth::ClientHandshake::State::refused:
      Missed(peer, dial, false, address + " is not talked to: " + attempt.handshake->refusal());
      break;
  }
  return true;
}

bool TcpTransport::AdvanceDials(int rank) {
  auto& peer = At(rank);
  bool moved = false;
  for (auto dial = peer.dials.begin(); dial != peer.dials.end() && !peer.broken;) {
    const std::size_t before = peer.lines.size();
    moved = AdvanceDial(rank, *dial) || moved;
    dial = peer.lines.size() > before ? peer.dials.erase(dial) : std::next(dial);
  }
  const bool answered = std::ranges::any_of(
      peer.dials, [](const auto& dial) { return dial.attempt && dial.attempt->handshake.has_value(); });
  const bool over = !peer.dials.empty() && !answered && peer.give_up.Passed() && !peer.broken;
  if (over && !peer.nobody && peer.lines.empty() && SystemAnswers(peer)) {
    peer.give_up = Deadline::After(kSilenceLook);
  } else if (over) {
    if (peer.lines.empty()) {
      Break(rank, fmt::format("it cannot be connected to ({})",
                              peer.reason.empty() ? "its system does not answer" : peer.reason));
    } else {
      Log(Subject::transport, "rank {}: {} of {} connections to rank {} failed: {}", rank_, peer.dials.size(),
          connections_, rank, peer.reason);
      peer.dials.clear();
    }
    moved = true;
  }
  // Cleared only here, because the dial that was just advanced may be the cause.
  if (peer.broken) peer.dials.clear();
  return moved;
}

// Whether the peer's system answers on a proven connection to any of its ranks. Calls to this peer may still be lost if
// its port is full of other callers.
bool TcpTransport::SystemAnswers(const Peer& peer) const {
  const auto of_its_system = [&](const net::SocketAddress& address) {
    return std::ranges::any_of(peer.addresses,
                               [&](const auto& own) { return own.v6 == address.v6 && own.ip == address.ip; });
  };
  return std::ranges::any_of(peers_, [&](const auto& each) {
    return std::ranges::any_of(each.second.addresses, of_its_system) && Reaches(each.first);
  });
}

void TcpTransport::Add(int rank, net::Socket socket, const auth::SecretKey& sending, const auth::SecretKey& receiving) {
  auto& peer = At(rank);
  net::KeepAlive(socket, silence_);
  const auto who = WhoIs(rank, peer.lines.size());
  const std::size_t turn = TurnOf(socket, own_, rank_);
  TcpStream stream(std::move(socket), rank, {TcpSeal(protection_, sending), TcpSeal(protection_, receiving)});
  peer.lines.push_back(std::make_unique<TcpConnection>(TcpConnection{std::move(stream), turn}));
  auto& line = *peer.lines.back();
  Watched(line.stream.socket().fd(), EPOLLIN, EPOLL_CTL_ADD, who);
  peer.dial_at.reset();
  events_.Connected(rank);
  for (const auto& message : peer.messages) line.stream.QueueControl(message);
  peer.messages.clear();
  FlushLine(rank, line);
}

bool TcpTransport::AdmitCallers() {
  auto admitted = keeper_->Take();
  for (auto& one : admitted) {
    const auto peer = peers_.find(one.rank);
    if (one.nranks == nranks_ && peer != peers_.end() && !peer->second.broken) {
      Add(one.rank, std::move(one.socket), one.keys.server_to_client, one.keys.client_to_server);
    }
  }
  return !admitted.empty();
}

int TcpTransport::Room(int rank) const {
  const auto* const line = Shortest(At(rank).lines, false);
  return line == nullptr
             ? 0
             : static_cast<int>(TcpStream::kMaxSlots - std::min(TcpStream::kMaxSlots, line->stream.slots_queued()));
}

void TcpTransport::Send(int rank, const progress::SlotMessage& message, const std::byte* data) {
  Shortest(At(rank).lines, message.bytes >= kWorthALook)->stream.QueueSlot(message, data);
}

void TcpTransport::SendControl(int rank, std::span<const std::byte> message) {
  auto& peer = At(rank);
  if (peer.broken) return;
  if (auto* const line = Shortest(peer.lines, false)) {
    line->stream.QueueControl(message);
  } else {
    peer.messages.emplace_back(message.begin(), message.end());
  }
}

void TcpTransport::FlushLine(int rank, TcpConnection& line) {
  if (!line.stream.Flush(events_)) {
    NoteEnd(rank, line.stream.why());
    return;
  }
  const bool wants_out = line.stream.bytes_queued() > 0;
  if (wants_out == line.wants_out) return;
  line.wants_out = wants_out;
  const auto& lines = At(rank).lines;
  const auto at = std::ranges::find(lines, &line, [](const auto& each) { return each.get(); });
  Watched(line.stream.socket().fd(), wants_out ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD,
          WhoIs(rank, static_cast<std::size_t>(at - lines.begin())));
}

void TcpTransport::Flush(int rank) {
  auto& peer = At(rank);
  for (std::size_t i = 0; i < peer.lines.size() && !peer.broken; ++i) {
    // Where the system has not taken everything, epoll reports when it takes more.
    if (!peer.lines[i]->wants_out) FlushLine(rank, *peer.lines[i]);
  }
}

bool TcpTransport::AdvanceLine(std::uint64_t who, std::uint32_t events) {
  const int rank = static_cast<int>(who & 0xffffffff);
  const std::size_t index = who >> 32;
  auto& peer = At(rank);
  if (index >= peer.lines.size()) return false;  // broken a moment ago
  auto& line = *peer.lines[index];
  bool moved = false;
  if ((events & EPOLLOUT) != 0) {
    FlushLine(rank, line);
    moved = true;
  }
  if ((events & EPOLLERR) != 0) moved = line.stream.Reap(events_) || moved;
  if (peer.broken || (events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0) return moved;
  bool received = false;
  const bool open = line.stream.Receive(events_, received);
  if (received) warm_.Received(who);
  if (!open) NoteEnd(rank, line.stream.why());
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
    for (std::size_t i = 0; i < peer.lines.size(); ++i) {
      auto& stream = peer.lines[i]->stream;
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
  for (const auto& line : peer.lines) {
    const auto& socket = line->stream.socket();
    Watched(socket.fd(), 0, EPOLL_CTL_DEL, 0);
    // The cause may be over in a moment, so the peer, too, must learn that this is the end.
    socket.Shutdown();
  }
  // The lines themselves may be in use further up the stack; they are destroyed with this.
  events_.Broken(rank, why);
}

bool TcpTransport::Advance() {
  if (const auto warm = warm_.Next()) {
    const bool moved = AdvanceLine(*warm, EPOLLIN);
    if (!moved) warm_.Missed();
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
      moved = AdvanceLine(who, events[static_cast<std::size_t>(i)].events) || moved;
    }
  }
  for (const int rank : dialling_) {
    auto& peer = At(rank);
    if (peer.dial_at && peer.dial_at->Passed()) {
      peer.dial_at.reset();
      if (peer.lines.empty()) Dial(rank, 1);
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
    for (const auto& line : peer.lines) {
      auto why = line->silence.Look(line->stream.socket(), peer.addresses, silence_);
      if (line->silence.calling()) next_look_ = Deadline::After(kCallLook);
      if (!why) continue;
      Break(rank, std::move(*why));
      break;
    }
    for (auto& dial : peer.dials) {
      if (!dial.attempt || !dial.attempt->handshake) continue;
      if (const auto ms = progress::Silence(dial.attempt->handshake->socket(), silence_)) {
        const auto address = peer.addresses[dial.attempt->address].Text();
        Missed(peer, dial, true, fmt::format("{} has answered nothing for {} ms", address, *ms));
      }
    }
  }
}

Deadline::Milliseconds TcpTransport::LongestWait() const { return dialling_.empty() ? kDeepSleep : kLightSleep; }

void TcpTransport::Close() {
  if (!keeper_) return;
  // A forked child may hold a copy, which would keep it watched.
  Watched(keeper_->descriptor(), 0, EPOLL_CTL_DEL, 0);
  keeper_.reset();
}

bool TcpTransport::Reaches(int rank) const {
  const auto& peer = At(rank);
  return !peer.broken && std::ranges::any_of(peer.lines, [this](const auto& line) {
    return progress::Answers(line->stream.socket(), silence_);
  });
}

bool TcpTransport::Delivered(int rank) const {
  const auto& peer = At(rank);
  if (peer.broken) return true;
  if (peer.lines.empty()) return peer.messages.empty();
  return std::ranges::all_of(peer.lines, [](const auto& line) { return line->stream.bytes_on_the_way() == 0; });
}

}  // namespace tutti::tcp
