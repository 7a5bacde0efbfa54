// One call to a rank of a communicator, advanced without blocking: connects to whichever of the rank's addresses
// answers first, and proves itself there.
//
// Thread-safety: one thread at a time.
#pragma once

#include <poll.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "base/clocks/deadline.h"
#include "net/auth/channel.h"
#include "net/auth/client_handshake.h"

namespace tutti::shrink {

class AgreementCaller {
 public:
  enum class State {
    connecting,
    ringing,  // the callee's system accepted the call: it lives
    talking,  // channel()
    refused,  // the callee's process has ended, or has given up the communicator
    silent,   // the callee's system, or the route to it, is gone
    dropped   // the callee lives, and hung up
  };

  // Rank `rank` of `nranks` calls `callee` at once. A system that does not answer within `silence` stays silent for
  // this call. If `lives` says that it answers elsewhere, the port may be full of other callers: the caller retries.
  AgreementCaller(const std::vector<net::SocketAddress>& addresses, int rank, int callee, int nranks,
                  Deadline::Milliseconds silence, std::function<bool()> lives);

  // Advances as far as possible without blocking.
  State Advance(const auth::SecretKey& key);
  State state() const { return state_; }
  // Appends the descriptors that this waits for.
  void Watch(std::vector<pollfd>& fds) const;
  // When Advance must be called even without an event.
  Deadline NextDeadline() const { return state_ == State::connecting ? std::min(give_up_, retry_) : Deadline::Never(); }
  // REQUIRES: talking.
  auth::SecureChannel& channel() { return *channel_; }
  auth::SecureChannel TakeChannel() { return std::move(*channel_); }

 private:
  void Call();
  void AdvanceConnecting();
  void AdvanceRinging(const auth::SecretKey& key);

  std::vector<net::SocketAddress> addresses_;
  auth::Errand errand_;
  Deadline::Milliseconds silence_;
  std::function<bool()> lives_;
  Deadline give_up_;
  Deadline retry_ = Deadline::Never();  // while none of the addresses is reachable
  State state_ = State::connecting;
  std::vector<net::Socket> attempts_;
  std::optional<auth::ClientHandshake> handshake_;
  std::optional<auth::SecureChannel> channel_;
  bool proven_ = false;  // but not yet admitted
};

}  // namespace tutti::shrink
