#include "src/bootstrap/shrink/caller.h"

#include <cerrno>
#include <utility>

namespace tutti::shrink {
namespace {

// Pause before retrying an address that was unreachable.
constexpr Deadline::Milliseconds kRetryPause{100};

// Interval between calls to a port that does not answer while its system does.
constexpr Deadline::Milliseconds kCallAgain{1'000};

}  // namespace

AgreementCaller::AgreementCaller(const std::vector<net::SocketAddress>& addresses, int rank, int callee, int nranks,
                                 Deadline::Milliseconds silence, std::function<bool()> lives)
    : addresses_(addresses),
      errand_{auth::Purpose::membership_agreement, rank, callee, nranks},
      silence_(silence),
      lives_(std::move(lives)),
      give_up_(Deadline::After(silence)) {
  Call();
}

void AgreementCaller::Call() {
  retry_ = Deadline::Never();
  for (const auto& address : addresses_) {
    auto result = net::StartConnect(address);
    if (result.socket) attempts_.push_back(std::move(result.socket));
    if (result.error == ECONNREFUSED) state_ = State::refused;
  }
  if (attempts_.empty()) retry_ = Deadline::After(kRetryPause);
}

AgreementCaller::State AgreementCaller::Advance(const auth::SecretKey& key) {
  if (state_ == State::connecting) AdvanceConnecting();
  if (state_ == State::ringing) AdvanceRinging(key);
  return state_;
}

void AgreementCaller::AdvanceConnecting() {
  bool refused = false, reset = false;
  for (auto attempt = attempts_.begin(); attempt != attempts_.end();) {
    pollfd fd{attempt->fd(), POLLOUT, 0};
    if (poll(&fd, 1, 0) <= 0) {
      ++attempt;
      continue;
    }
    const int error = net::ConnectError(*attempt);
    if (error == 0) {
      net::KeepAlive(*attempt, silence_);
      handshake_.emplace(std::move(*attempt), errand_);
      attempts_.clear();
      state_ = State::ringing;
      return;
    }
    refused = refused || error == ECONNREFUSED;
    // The callee's system accepted the call just before the port was closed.
    reset = reset || error == ECONNRESET || error == ENOTCONN;
    attempt = attempts_.erase(attempt);
    if (attempts_.empty()) retry_ = Deadline::After(kRetryPause);
  }
  // One answering address proves that the host is there; the others need no further wait.
  if (refused) {
    state_ = State::refused;
  } else if (reset) {
    state_ = State::dropped;
  } else if (give_up_.Passed() && !lives_()) {
    state_ = State::silent;
  } else if (give_up_.Passed()) {
    give_up_ = Deadline::After(std::min(silence_, kCallAgain));
    attempts_.clear();
    Call();
  } else if (retry_.Passed()) {
    Call();
  }
}

void AgreementCaller::AdvanceRinging(const auth::SecretKey& key) {
  if (!proven_) {
    switch (handshake_->Advance(key)) {
      case auth::ClientHandshake::State::waiting: return;
      case auth::ClientHandshake::State::proven: break;
      case auth::ClientHandshake::State::dropped:
      case auth::ClientHandshake::State::unjudged: state_ = State::dropped; return;
      // Another program now has the port.
      case auth::ClientHandshake::State::foreign:
      case auth::ClientHandshake::State::stranger:
      case auth::ClientHandshake::State::misled:
      case auth::ClientHandshake::State::refused: state_ = State::refused; return;
    }
    const auto& keys = handshake_->keys();
    channel_.emplace(handshake_->TakeSocket(), keys.client_to_server, keys.server_to_client);
    proven_ = true;
  }
  // The callee's first, empty frame means that it has come to the agreement.
  if (channel_->Receive()) {
    state_ = State::talking;
  } else if (channel_->closed()) {
    state_ = State::dropped;
  }
}

void AgreementCaller::Watch(std::vector<pollfd>& fds) const {
  switch (state_) {
    case State::connecting:
      for (const auto& attempt : attempts_) fds.push_back({attempt.fd(), POLLOUT, 0});
      break;
    case State::ringing:
      if (proven_) {
        fds.push_back(channel_->Watch());
      } else {
        fds.push_back({handshake_->socket().fd(), POLLIN, 0});
      }
      break;
    case State::talking: fds.push_back(channel_->Watch()); break;
    default: break;
  }
}

}  // namespace tutti::shrink
