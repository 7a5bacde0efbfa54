#include "net/auth/handshake_pool.h"

#include <sodium.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/log.h"
#include "net/peer_user.h"

namespace tutti::auth {
namespace {

// New connections taken before the others are served again.
constexpr int kTakenAtOnce = 64;
// Without descriptors a listener stays readable; asking again at once would only burn the core.
constexpr Deadline::Milliseconds kExhaustedPause{20};

// Whose connections are counted together: the family, and an IPv4 address or an IPv6 network.
using Place = std::pair<bool, std::array<std::uint8_t, 8>>;

Place PlaceOf(const net::SocketAddress& address) {
  Place place{address.v6, {}};
  std::copy_n(address.ip.begin(), place.second.size(), place.second.begin());
  return place;
}

}  // namespace

SecureChannel Admitted::OpenChannel() && {
  SecureChannel channel(std::move(socket), keys.server_to_client, keys.client_to_server);
  channel.Queue({});
  return channel;
}

HandshakePool::HandshakePool(std::vector<net::Socket> listeners, FindServer find)
    : listeners_(std::move(listeners)), find_(std::move(find)) {}

HandshakePool::HandshakePool(std::vector<net::Socket> listeners, const SecretKey& key, Purpose purpose, int rank)
    : HandshakePool(std::move(listeners), [=](const ClientHello& hello) {
        return hello.purpose == purpose ? std::optional(Server{key, static_cast<std::uint32_t>(rank)}) : std::nullopt;
      }) {}

void HandshakePool::Watch(std::vector<pollfd>& fds) const {
  if (!paused_) {
    for (const auto& listener : listeners_) fds.push_back({listener.fd(), POLLIN, 0});
  }
  for (const auto& stranger : strangers_) fds.push_back({stranger.socket.fd(), POLLIN, 0});
}

Deadline HandshakePool::NextDeadline() const {
  const auto oldest = strangers_.empty() ? Deadline::Never() : strangers_.front().deadline;
  return paused_ ? std::min(oldest, resume_) : oldest;
}

void HandshakePool::Advance(std::span<const pollfd> fds, std::vector<Admitted>& admitted) {
  const auto listening = paused_ ? std::span<const pollfd>() : fds.first(listeners_.size());
  auto event = fds.begin() + static_cast<std::ptrdiff_t>(listening.size());
  for (auto stranger = strangers_.begin(); stranger != strangers_.end(); ++event) {
    auto step = event->revents != 0 ? Advance(*stranger, admitted) : Step::waiting;
    if (step == Step::waiting && stranger->deadline.Passed()) step = Step::put_out;
    if (step == Step::put_out) stranger->socket.Shutdown();
    stranger = step == Step::waiting ? std::next(stranger) : strangers_.erase(stranger);
  }
  if (paused_ && resume_.Passed()) paused_ = false;
  for (std::size_t i = 0; i < listening.size(); ++i) {
    if (listening[i].revents != 0) TakeNew(listeners_[i]);
  }
}

void HandshakePool::Close() {
  for (auto& listener : listeners_) listener.Shutdown();
  for (auto& stranger : strangers_) stranger.socket.Shutdown();
  listeners_.clear();
  strangers_.clear();
  paused_ = false;
}

void HandshakePool::TakeNew(const net::Socket& listener) {
  for (int taken = 0; taken < kTakenAtOnce; ++taken) {
    auto result = net::Accept(listener);
    if (result.status == net::AcceptStatus::none) return;
    if (result.status == net::AcceptStatus::exhausted) {
      if (strangers_.empty()) {
        paused_ = true;
        resume_ = Deadline::After(kExhaustedPause);
        return;
      }
      PutOutOne();
      continue;
    }
    if (const auto user = net::UserOfTcpPeer(result.socket); !user.taken()) {
      Log(Subject::init, "a connection to port {} was closed without a handshake: {}", net::LocalAddress(listener).port,
          user.why);
      continue;
    }
    if (strangers_.size() >= kMaxStrangers) PutOutOne();
    const auto from = net::PeerAddress(result.socket).value_or(net::SocketAddress());
    strangers_.push_back({.socket = std::move(result.socket),
                          .deadline = Deadline::After(kHandshakeTime),
                          .from = from,
                          .buffer = {},
                          .hello = {},
                          .server = {},
                          .secret = {},
                          .reply = {}});
  }
}

void HandshakePool::PutOutOne() {
  struct Crowd {
    std::size_t count = 0;
    bool silent = false;  // some of it is
    auto operator<=>(const Crowd&) const = default;
  };
  std::map<Place, Crowd> crowds;
  for (const auto& stranger : strangers_) {
    auto& crowd = crowds[PlaceOf(stranger.from)];
    ++crowd.count;
    crowd.silent = crowd.silent || !stranger.greeted;
  }
  Crowd worst;
  for (const auto& [place, crowd] : crowds) worst = std::max(worst, crowd);
  std::vector<Place> candidates;
  for (const auto& [place, crowd] : crowds) {
    if (crowd == worst) candidates.push_back(place);
  }
  const auto chosen = candidates[randombytes_uniform(static_cast<std::uint32_t>(candidates.size()))];
  const auto one = std::ranges::find_if(strangers_, [&](const Stranger& each) {
    return PlaceOf(each.from) == chosen && !(each.greeted && worst.silent);
  });
  one->socket.Shutdown();
  strangers_.erase(one);
}

HandshakePool::Step HandshakePool::Advance(Stranger& stranger, std::vector<Admitted>& admitted) {
  for (;;) {
    // Never read beyond the handshake: what follows belongs to the channel.
    const std::size_t needed = stranger.greeted ? kProofBytes : kClientHelloBytes;
    const auto room = std::span(stranger.buffer).first(needed).subspan(stranger.received);
    const auto result = net::ReceiveSome(stranger.socket, room);
    if (result.status == net::IoStatus::would_block) return Step::waiting;
    if (result.status == net::IoStatus::closed) return Step::put_out;
    stranger.received += result.bytes;
    if (stranger.received < needed) continue;
    if (!stranger.greeted) {
      if (!Greet(stranger)) return Step::put_out;
      continue;
    }
    return Prove(stranger, admitted) ? Step::admitted : Step::put_out;
  }
}

bool HandshakePool::Greet(Stranger& stranger) {
  const auto hello = DecodeClientHello(std::span(stranger.buffer).first<kClientHelloBytes>());
  auto server = hello ? find_(*hello) : std::nullopt;
  if (!server) return false;
  const auto pair = KeyPair::Fresh();
  stranger.hello = *hello;
  stranger.secret = pair.secret;
  stranger.server = std::move(*server);
  stranger.reply = {stranger.server.rank, pair.share};
  const auto reply = Encode(stranger.reply);
  // A new connection's buffer takes these few bytes at once, unless the client plays tricks with its window.
  const auto result = net::SendSome(stranger.socket, reply);
  if (result.bytes != reply.size()) return false;
  stranger.greeted = true;
  stranger.received = 0;
  // A client that means another rank was told which one it has reached.
  return hello->callee == stranger.server.rank;
}

bool HandshakePool::Prove(Stranger& stranger, std::vector<Admitted>& admitted) {
  Mac proof;
  std::copy_n(stranger.buffer.begin(), proof.size(), proof.begin());
  std::optional<SessionKeys> keys;
  const auto& key = stranger.server.key;
  if (SameMac(proof, ClientProof(key, stranger.hello, stranger.reply))) {
    keys = DeriveSessionKeys(key, stranger.hello, stranger.reply, stranger.secret, stranger.hello.share);
  }
  // Nothing may fail once the client has its proof.
  admitted.reserve(admitted.size() + 1);
  const Mac answer = keys ? ServerProof(key, stranger.hello, stranger.reply) : Mac{};
  const bool told = net::SendSome(stranger.socket, answer).bytes == answer.size();
  if (!keys || !told) return false;
  const auto& hello = stranger.hello;
  admitted.push_back({std::move(stranger.socket), *keys, static_cast<int>(hello.rank), static_cast<int>(hello.nranks),
                      static_cast<int>(hello.callee), hello.key_name});
  return true;
}

}  // namespace tutti::auth
