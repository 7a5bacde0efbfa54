// Which user of this machine is at the other end of a connection. The kernel says so, before a byte of the peer's is
// believed: by SO_PEERCRED of a Unix socket; of a TCP connection inside this machine by the owner of the socket at its
// other end (the kernel's socket diagnostics, or /proc/net/tcp).
//
// Ranks of one machine belong to one user, unless TUTTI_ALLOW_OTHER_USERS says otherwise.
//
// Thread-safety: functions without state.
#pragma once

#include <string>

#include "net/socket.h"

namespace tutti {

struct PeerUser {
  enum class Verdict {
    taken,
    gone,    // it has closed the connection, and nobody owns its end
    refused  // for `why`: "it belongs to user 1001 of this machine, and this process to user 1000"
  };
  Verdict verdict = Verdict::taken;
  std::string why;

  bool taken() const { return verdict == Verdict::taken; }
};

// REQUIRES: a connected Unix socket.
PeerUser UserOfUnixPeer(int socket);

// A connection that comes from another machine is taken: it is for the handshake alone to judge.
// REQUIRES: the peer has connected, or (if it accepts) has answered: before that, its end has no owner yet.
PeerUser UserOfTcpPeer(const Socket& socket);

}  // namespace tutti
