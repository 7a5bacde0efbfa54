// The TCP transport's connections while they are made: calls to the peers' addresses, and callers let in.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/log.h"
#include "transports/tcp/tcp.h"

namespace tutti::tcp {
namespace {

// An address that has not answered by then makes way for the next; earlier if the silence limit would end the dial
// before each address has had its turn.
constexpr Deadline::Milliseconds kAttemptTime{3'000};
// Between rounds over all addresses.
constexpr Deadline::Milliseconds kRetryPause{50};
// How long the higher rank waits for the lower one's call. If the lower one has ended, that is part of the second within
// which the higher one learns of it.
constexpr Deadline::Milliseconds kCallPatience{300};

}  // namespace

void TcpTransport::Connect(int rank) {
  auto& peer = At(rank);
  if (peer.wanted || peer.broken) return;
  peer.wanted = true;
  if (keeper_) AdmitCallers();
  if (rank_ < rank) {
    // The peer may have been first, and then made one.
    const auto all = static_cast<std::size_t>(connections_to_each_);
    if (peer.connections.size() < all) Dial(rank, peer.connections.size(), all);
  } else if (peer.connections.empty()) {
    peer.dial_at = Deadline::After(kCallPatience);
    dialling_.push_back(rank);
  }
}

void TcpTransport::Hurry(int rank) {
  Connect(rank);
  auto& peer = At(rank);
  if (peer.dial_at) peer.dial_at = Deadline::After({});
}

void TcpTransport::Dial(int rank, std::size_t begin, std::size_t end) {
  auto& peer = At(rank);
  peer.give_up = Deadline::After(silence_);
  for (std::size_t i = begin; i < end; ++i) {
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
    Missed(peer, dial, true, fmt::format("{}: {}", address.Text(), ErrnoText(result.error)));
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
        Missed(peer, dial, error != ECONNREFUSED, fmt::format("{}: {}", address, ErrnoText(error)));
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
    case auth::ClientHandshake::State::foreign: Missed(peer, dial, false, address + " is not a Tutti port"); break;
    case auth::ClientHandshake::State::stranger:
      Missed(peer, dial, false, address + " answers with another secret than this communicator's, or has given it up");
      break;
    case auth::ClientHandshake::State::misled:
      Missed(peer, dial, false, fmt::format("{} answers for rank {}", address, attempt.handshake->answers_for()));
      break;
    // The system may tell at the next call.
    case auth::ClientHandshake::State::unjudged:
      if (!peer.judge_by) peer.judge_by = Deadline::After(silence_);
      Missed(peer, dial, !peer.judge_by->Passed(), address + " is refused: " + attempt.handshake->refusal());
      break;
    case auth::ClientHandshake::State::refused:
      Missed(peer, dial, false, address + " is refused: " + attempt.handshake->refusal());
      break;
  }
  return true;
}

bool TcpTransport::AdvanceDials(int rank) {
  auto& peer = At(rank);
  bool moved = false;
  for (auto dial = peer.dials.begin(); dial != peer.dials.end() && !peer.broken;) {
    const std::size_t before = peer.connections.size();
    moved = AdvanceDial(rank, *dial) || moved;
    dial = peer.connections.size() > before ? peer.dials.erase(dial) : std::next(dial);
  }
  const bool answered = std::ranges::any_of(
      peer.dials, [](const auto& dial) { return dial.attempt && dial.attempt->handshake.has_value(); });
  const bool over = !peer.dials.empty() && !answered && peer.give_up.Passed() && !peer.broken;
  if (over && !peer.nobody && peer.connections.empty() && SystemAnswers(peer)) {
    peer.give_up = Deadline::After(kSilenceLook);
  } else if (over) {
    if (peer.connections.empty()) {
      Break(rank,
            fmt::format("cannot connect to it ({})", peer.reason.empty() ? "its host does not answer" : peer.reason));
    } else {
      Log(Subject::transport, "rank {}: {} of {} connections to rank {} failed: {}", rank_, peer.dials.size(),
          connections_to_each_, rank, peer.reason);
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
  const auto who = WhoIs(rank, peer.connections.size());
  const std::size_t turn = TurnOf(socket, own_, rank_);
  TcpStream stream(std::move(socket), rank, {TcpSeal(protection_, sending), TcpSeal(protection_, receiving)});
  peer.connections.push_back(std::make_unique<TcpConnection>(TcpConnection{std::move(stream), turn}));
  auto& connection = *peer.connections.back();
  if (!Watched(connection.stream.socket().fd(), EPOLLIN, EPOLL_CTL_ADD, who)) NoteEnd(rank, kNotWatched);
  peer.dial_at.reset();
  events_.Connected(rank);
  for (const auto& message : peer.messages) connection.stream.QueueControl(message);
  peer.messages.clear();
  FlushConnection(rank, connection);
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

}  // namespace tutti::tcp
