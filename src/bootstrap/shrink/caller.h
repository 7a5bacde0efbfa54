// One call to a rank of a communicator, as far as it gets without blocking: connects to whichever of its addresses
// answers first, and proves itself there.
//
// Thread-safety: one thread at a time.
#pragma once

#include <poll.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "net/auth/channel.h"
#include "net/auth/client_handshake.h"

namespace tutti {

class ReunionCaller {
 public:
  enum class State {
    connecting,
    ringing,  // its system took the call: it lives
    talking,  // channel()
    refused,  // its process has ended: nobody listens any more
    silent,   // its system, or the way to it, has
    dropped   // it lives, and hung up
  };

  // Rank `rank` of `nranks` calls `callee`, at once. A system that does not answer within `silence` is silent, also
  // later. If `lives` then says that it answers elsewhere, the port may be full of other callers: it is called again.
  ReunionCaller(const std::vector<SocketAddress>& addresses, int rank, int callee, int nranks,
                Deadline::Milliseconds silence, std::function<bool()> lives);

  // Does what can be done now.
  State Advance(const SecretKey& key);
  State state() const { return state_; }
  // Appends what this waits for.
  void Watch(std::vector<pollfd>& fds) const;
  // When Advance must be called even if nothing happens.
  Deadline NextDeadline() const { return state_ == State::connecting ? std::min(give_up_, retry_) : Deadline::Never(); }
  // REQUIRES: talking.
  SecureChannel& channel() { return *channel_; }
  SecureChannel TakeChannel() { return std::move(*channel_); }

 private:
  void Call();
  void AdvanceConnecting();
  void AdvanceRinging(const SecretKey& key);

  std::vector<SocketAddress> addresses_;
  Errand errand_;
  Deadline::Milliseconds silence_;
  std::function<bool()> lives_;
  Deadline give_up_;
  Deadline retry_ = Deadline::Never();  // while there is no way to any of the addresses
  State state_ = State::connecting;
  std::vector<Socket> attempts_;
  std::optional<ClientHandshake> handshake_;
  std::optional<SecureChannel> channel_;
  bool proven_ = false;  // but not yet admitted
};

}  // namespace tutti
