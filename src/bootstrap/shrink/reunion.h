// How the ranks of a communicator find each other again when some of them may be gone, and agree on who is left.
//
// Every rank keeps a port open for as long as its communicator lives, and all ranks know all ports. So each rank can
// judge by itself whether another is there. If the other's process has ended, its system refuses calls; if the host is
// gone or cut off, nothing answers. A call that is accepted but not answered means a rank that lives and has not come
// yet. A call that nothing answers proves nothing if the other's system answers on a proven connection, or is this
// rank's own: then the port is full, and is called again. The lowest rank that is there leads. It hears from every rank
// that has come, and calls those that have not. When each has come or is gone, it tells those that came which ranks
// they are, and where they meet as a new communicator. If a leader ends meanwhile, its followers look for the next.
//
// What it cannot do: ranks that a partition keeps apart cannot know of each other, so each side goes on without the
// other. Where sides overlap - a rank that reaches only some - the rank that is left over is told.
//
// Thread-safety: REQUIRES one call at a time. Belongs to the process that made it.
#pragma once

#include <functional>
#include <vector>

#include "base/cancellation.h"
#include "base/deadline.h"
#include "net/auth/doorkeeper.h"
#include "src/bootstrap/join_messages.h"
#include "src/bootstrap/shrink/ties.h"
#include "tutti/tutti.h"

namespace tutti {

// Those who go on.
struct Reunited {
  std::vector<int> members;  // ranks of the old communicator, ascending
  tuttiUniqueId id{};        // where they meet
};

class Reunion {
 public:
  // Of a communicator's ranks: who they are, which are on one host, and where each can be called.
  struct Ranks {
    std::vector<Process> roster;
    std::vector<int> host_of;
    std::vector<std::vector<SocketAddress>> addresses;
  };

  // `listeners` are what ranks.addresses says of this rank. `silence`: a system that has answered nothing for that time
  // is gone. `reaches`: whether another connection to that rank, which has proven itself, is open and answered.
  Reunion(int rank, Ranks ranks, std::vector<Socket> listeners, const SecretKey& key, Deadline::Milliseconds silence,
          std::function<bool(int rank)> reaches);
  Reunion(const Reunion&) = delete;
  Reunion& operator=(const Reunion&) = delete;

  // Collective over the ranks that are left but those in `excluded`, which must be equal everywhere. `ended`: ranks
  // that are known to be gone, whatever still answers for them. `open` makes the id; the leader calls it. Throws
  // tuttiTimeoutError naming the ranks that live and did not come; tuttiInvalidUsage if `excluded` differs (naming
  // both), or on cancellation; tuttiRemoteError if the others have gone on without this rank.
  Reunited Meet(const std::vector<int>& excluded, const std::vector<int>& ended,
                const std::function<tuttiUniqueId()>& open, Deadline deadline, Cancellation cancel);
  // Of the members of the last meeting, while they become a communicator.
  ReunionTies& ties() { return ties_; }

 private:
  int rank_;
  Ranks ranks_;
  SecretKey key_;
  Deadline::Milliseconds silence_;
  std::function<bool(int rank)> reaches_;
  Doorkeeper keeper_;
  // Connections of the last meeting stay open until the next, or what was sent last might not arrive.
  std::vector<SecureChannel> last_;
  ReunionTies ties_;
};

}  // namespace tutti
