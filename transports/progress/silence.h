// When a peer's system has stopped answering.
//
// TCP repeats less and less often what is not answered - after half a minute it waits for as long again - so a
// connection may be silent long after the network has come back. A new call is answered at once: so where a connection
// is silent its other end is called before it is given up, by the same way.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "net/socket.h"

namespace tutti {

// For so many ms the system at the other end has answered nothing, if that is beyond `silence` and no accident.
std::optional<std::uint32_t> Silence(const Socket& socket, Deadline::Milliseconds silence);

// Whether the connection is open at both ends, without a sign that the other end's system has stopped answering.
bool Answers(const Socket& socket, Deadline::Milliseconds silence);

// Of one connection.
class SilenceWatch {
 public:
  // The peer takes calls at `addresses`. Why to give it up, for a person; nothing as long as there is hope: by twice
  // the silence TCP has repeated once more.
  std::optional<std::string> Look(const Socket& connection, const std::vector<SocketAddress>& addresses,
                                  Deadline::Milliseconds silence);
  // The same of a connection of which Silence() says `ms`, and whose other end takes calls at `addresses`.
  std::optional<std::string> Look(std::optional<std::uint32_t> ms, const std::vector<SocketAddress>& addresses,
                                  Deadline::Milliseconds silence);
  // It is being called: look again soon.
  bool calling() const { return !calls_.empty(); }

 private:
  enum class Answer {
    waiting,
    there,    // somebody takes calls at the peer's port
    refused,  // its system is there, and nobody takes calls any more
    none,     // nothing has come in time
  };
  void Call(const std::vector<SocketAddress>& addresses, Deadline deadline);
  Answer Hear();

  std::vector<Socket> calls_;  // that have not been answered
  bool refused_ = false;
  Deadline deadline_ = Deadline::Never();
  std::optional<Deadline> trusted_;  // until then, because it has answered a call
};

}  // namespace tutti
