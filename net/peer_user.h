// Finds which user of this machine is at the other end of a connection. The kernel answers that before a byte from the
// peer is believed: for a Unix socket by SO_PEERCRED, for a TCP connection by the owner of the socket at the other end
// (socket_owner.h). Addresses do not tell whether the peer is of this machine, so they are not asked.
//
// Ranks of one machine belong to one user, unless TUTTI_ALLOW_OTHER_USERS says otherwise.
//
// Thread-safety: functions without state.
#pragma once

#include <string>

#include "net/socket.h"

namespace tutti::net {

struct PeerUser {
  enum class Verdict {
    taken,
    gone,     // it has closed the connection, and its end has no owner
    unknown,  // the kernel does not tell, perhaps only now: `why` advises
    refused   // for `why`: "it belongs to user 1001 of this machine, and this process to user 1000"
  };
  Verdict verdict = Verdict::taken;
  std::string why;

  bool taken() const { return verdict == Verdict::taken; }
};

// REQUIRES: a connected Unix socket.
PeerUser UserOfUnixPeer(int socket);

// A connection whose other end is no socket of this machine is accepted: only the handshake judges it.
// REQUIRES: the peer has connected, or (if it accepts) has answered: before that, its end has no owner yet.
PeerUser UserOfTcpPeer(const Socket& socket);

}  // namespace tutti::net
