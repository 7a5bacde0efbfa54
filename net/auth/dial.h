// The client's side of meeting: connect to whichever address answers, and prove the key both ways (handshake.h).
//
// Thread-safety: a function without shared state. Blocks until the deadline or cancellation.
#pragma once

#include <string>
#include <vector>

#include "base/clocks/deadline.h"
#include "net/auth/channel.h"
#include "net/auth/handshake.h"

namespace tutti::auth {

struct Call {
  std::vector<net::SocketAddress> addresses;  // tried in order; the next one when all before it have failed or are slow
  Purpose purpose = Purpose::rendezvous;      // or the hub's
  int rank = 0;
  int nranks = 1;
  bool may_be_early = false;  // the port may have no listener yet, or still that of an earlier job
  std::string whom;           // for messages: "the rendezvous"
};

// Throws tuttiTimeoutError with the last reason, tuttiRemoteError when the port has no listener (any more),
// tuttiInvalidUsage when the listener does not hold the key, or on cancellation.
SecureChannel Dial(const Call& call, const SecretKey& key, Deadline deadline, Cancellation cancel = {});

[[noreturn]] void ThrowCancelled();

}  // namespace tutti::auth
