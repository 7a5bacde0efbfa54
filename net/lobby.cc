#include "net/lobby.h"

#include <algorithm>

namespace tutti {
namespace {

// Connections taken before the others are looked after again.
constexpr int kTakenAtOnce = 64;
// Without descriptors a listener stays readable; asking again at once would only burn the core.
constexpr Deadline::Milliseconds kExhaustedPause{20};

}  // namespace

SecureChannel Admitted::OpenChannel() && {
  SecureChannel channel(std::move(socket), keys.server_to_client, keys.client_to_server);
  channel.Queue({});
  return channel;
}

Lobby::Lobby(std::vector<Socket> listeners, const SecretKey& key, Purpose purpose)
    : listeners_(std::move(listeners)), key_(key), purpose_(purpose) {}

void Lobby::Watch(std::vector<pollfd>& fds) const {
  if (!paused_) {
    for (const auto& listener : listeners_) fds.push_back({listener.fd(), POLLIN, 0});
  }
  for (const auto& stranger : strangers_) fds.push_back({stranger.socket.fd(), POLLIN, 0});
}

Deadline Lobby::NextDeadline() const {
  const auto oldest = strangers_.empty() ? Deadline::Never() : strangers_.front().deadline;
  return paused_ ? std::min(oldest, resume_) : oldest;
}

void Lobby::Advance(std::span<const pollfd> fds, std::vector<Admitted>& admitted) {
  const auto listening = paused_ ? std::span<const pollfd>() : fds.first(listeners_.size());
  auto event = fds.begin() + static_cast<std::ptrdiff_t>(listening.size());
  for (auto stranger = strangers_.begin(); stranger != strangers_.end(); ++event) {
    auto step = event->revents != 0 ? Advance(*stranger) : Step::waiting;
    if (step == Step::waiting && stranger->deadline.Passed()) step = Step::put_out;
    if (step == Step::admitted) {
      admitted.push_back({std::move(stranger->socket), DeriveSessionKeys(key_, stranger->hello, stranger->nonce),
                          static_cast<int>(stranger->hello.rank), static_cast<int>(stranger->hello.nranks)});
    }
    if (step == Step::put_out) stranger->socket.Shutdown();
    stranger = step == Step::waiting ? std::next(stranger) : strangers_.erase(stranger);
  }
  if (paused_ && resume_.Passed()) paused_ = false;
  for (std::size_t i = 0; i < listening.size(); ++i) {
    if (listening[i].revents != 0) TakeNew(listeners_[i]);
  }
}

void Lobby::Close() {
  for (auto& listener : listeners_) listener.Shutdown();
  for (auto& stranger : strangers_) stranger.socket.Shutdown();
  listeners_.clear();
  strangers_.clear();
  paused_ = false;
}

void Lobby::TakeNew(const Socket& listener) {
  for (int taken = 0; taken < kTakenAtOnce; ++taken) {
    auto result = Accept(listener);
    if (result.status == AcceptStatus::none) return;
    if (result.status == AcceptStatus::exhausted) {
      if (strangers_.empty()) {
        paused_ = true;
        resume_ = Deadline::After(kExhaustedPause);
        return;
      }
      PutOutOldest();
      continue;
    }
    if (strangers_.size() >= kMaxStrangers) PutOutOldest();
    strangers_.push_back({.socket = std::move(result.socket),
                          .deadline = Deadline::After(kHandshakeTime),
                          .buffer = {},
                          .hello = {},
                          .nonce = {}});
  }
}

void Lobby::PutOutOldest() {
  strangers_.front().socket.Shutdown();
  strangers_.pop_front();
}

Lobby::Step Lobby::Advance(Stranger& stranger) {
  for (;;) {
    // Never read beyond the handshake: what follows belongs to the channel.
    const std::size_t needed = stranger.greeted ? kClientProofBytes : kClientHelloBytes;
    const auto room = std::span(stranger.buffer).first(needed).subspan(stranger.received);
    const auto result = ReceiveSome(stranger.socket, room);
    if (result.status == IoStatus::would_block) return Step::waiting;
    if (result.status == IoStatus::closed) return Step::put_out;
    stranger.received += result.bytes;
    if (stranger.received < needed) continue;
    if (!stranger.greeted) {
      if (!Greet(stranger)) return Step::put_out;
      continue;
    }
    Mac proof;
    std::copy_n(stranger.buffer.begin(), proof.size(), proof.begin());
    return SameMac(proof, ClientProof(key_, stranger.hello, stranger.nonce)) ? Step::admitted : Step::put_out;
  }
}

bool Lobby::Greet(Stranger& stranger) {
  const auto hello = DecodeClientHello(std::span(stranger.buffer).first<kClientHelloBytes>());
  if (!hello || hello->purpose != purpose_) return false;
  stranger.hello = *hello;
  stranger.nonce = RandomNonce();
  const auto reply = Encode(ServerHello{stranger.nonce, ServerProof(key_, *hello, stranger.nonce)});
  // A new connection's buffer takes these few bytes at once, unless somebody plays tricks with its window.
  const auto result = SendSome(stranger.socket, reply);
  if (result.bytes != reply.size()) return false;
  stranger.greeted = true;
  stranger.received = 0;
  return true;
}

}  // namespace tutti
