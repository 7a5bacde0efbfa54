// Detects that a peer's system has stopped answering.
//
// TCP retransmits unanswered data less and less often - after half a minute it waits for as long again - so a
// connection may be silent long after the network has come back. A new call is answered at once: so before a silent
// connection is given up, its other end is called, by the same way.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clocks/deadline.h"
#include "net/socket.h"

namespace tutti::progress {

// Returns how long the remote host has not acknowledged data, in ms, once that exceeds `silence` and is confirmed.
std::optional<std::uint32_t> Silence(const net::Socket& socket, Deadline::Milliseconds silence);

// Whether the connection is open at both ends, without a sign that the other end's system has stopped answering.
bool Answers(const net::Socket& socket, Deadline::Milliseconds silence);

// Watches one connection.
class SilenceWatch {
 public:
  // The peer takes calls at `addresses`. Returns why to give it up, for a person; nothing while there is hope: by twice
  // the silence TCP has retransmitted once more.
  std::optional<std::string> Look(const net::Socket& connection, const std::vector<net::SocketAddress>& addresses,
                                  Deadline::Milliseconds silence);
  // The same for a connection with `ms` from Silence(), whose other end takes calls at `addresses`.
  std::optional<std::string> Look(std::optional<std::uint32_t> ms, const std::vector<net::SocketAddress>& addresses,
                                  Deadline::Milliseconds silence);
  // The peer is being called: look again soon.
  bool calling() const { return !calls_.empty(); }

 private:
  enum class Answer {
    waiting,
    there,    // the peer's port takes calls
    refused,  // its system answers, but its port is closed
    none,     // no answer in time
  };
  void Call(const std::vector<net::SocketAddress>& addresses, Deadline deadline);
  Answer Hear();

  std::vector<net::Socket> calls_;  // not answered yet
  bool refused_ = false;
  Deadline deadline_ = Deadline::Never();
  std::optional<Deadline> trusted_;  // until then, because it has answered a call
};

}  // namespace tutti::progress
