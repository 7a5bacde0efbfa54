// The connections to one peer, over one or several interfaces, and which of them takes what is to be sent next.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "net/socket.h"
#include "transports/progress/silence.h"
#include "transports/tcp/stream.h"

namespace tutti::tcp {

struct TcpConnection {
  TcpStream stream;
  std::size_t turn = 0;    // see TurnOf
  bool wants_out = false;  // epoll watches for output
  progress::SilenceWatch silence = {};
};

// The place of the connection's interface among this rank's `own`, counted from the one that is the rank's first
// choice: ranks of a host begin on different ones, so that rail j of a two-level algorithm is on interface j.
std::size_t TurnOf(const net::Socket& socket, const std::vector<net::SocketAddress>& own, int rank);

// The connection with the least data waiting; among equals the one whose turn is first. Null if there is none. Systems
// accept much more than they can send at once, so nothing waits here even if one interface is busy and another is not:
// `by_way` also counts what the systems hold, which costs a call for each connection.
TcpConnection* Shortest(const std::vector<std::unique_ptr<TcpConnection>>& connections, bool by_way);

}  // namespace tutti::tcp
