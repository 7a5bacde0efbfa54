// How the ranks of a communicator find each other again when some may be gone, and agree on which are left.
//
// Every rank answers at its process's port as long as its communicator lives, and all ranks know all ports, so each rank
// can judge by itself whether another is there. If the other's process has ended, its system refuses calls; if it has
// given up the communicator, its process does; if the host is gone or cut off, nothing answers. A rank that accepts a
// call but does not answer lives and has not come yet. An unanswered call proves nothing if the other's system answers
// on a proven connection, or is this rank's own: then the port is full, and the caller retries. The lowest rank that is
// there leads. It hears from every rank that has come, and calls the others. When each has come or is gone, it sends
// those that came the list of members and where they meet as a new communicator. If a leader ends before that, its
// followers look for the next.
//
// Limits: ranks that a partition separates cannot detect each other, so each side continues without the other. Where
// sides overlap, a rank that reaches only some ranks may be left over; it gets an error.
//
// Thread-safety: REQUIRES one call at a time. Belongs to the process that made it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/clocks/deadline.h"
#include "base/threads/cancellation.h"
#include "net/auth/doorkeeper.h"
#include "src/bootstrap/join_messages.h"
#include "src/bootstrap/shrink/liveness_links.h"
#include "tutti/tutti.h"

namespace tutti::shrink {

// The ranks that continue.
struct Reunited {
  std::vector<int> members;  // ranks of the old communicator, ascending
  tuttiUniqueId id{};        // where they meet
};

class MembershipAgreement {
 public:
  // A communicator's ranks: their processes, their hosts, and the addresses at which each can be called.
  struct Ranks {
    std::vector<bootstrap::Process> roster;
    std::vector<int> host_of;
    std::vector<std::vector<net::SocketAddress>> addresses;
  };

  // `keeper` is this rank's, at its entry in ranks.addresses. `silence`: a system that has not answered for that long is
  // gone. `reaches`: whether another proven connection to that rank is open and answered.
  MembershipAgreement(int rank, Ranks ranks, std::unique_ptr<auth::Doorkeeper> keeper, const auth::SecretKey& key,
                      Deadline::Milliseconds silence, std::function<bool(int rank)> reaches);
  MembershipAgreement(const MembershipAgreement&) = delete;
  MembershipAgreement& operator=(const MembershipAgreement&) = delete;

  // Collective over the surviving ranks except those in `excluded`, which must be equal everywhere. `exact`: others must
  // not be gone. `ended`: ranks known to be gone, even if something still answers for them. `open` makes the id; the
  // leader calls it. Throws tuttiRemoteError on all ranks if `exact` is not met; tuttiTimeoutError naming the ranks that
  // live and did not come; tuttiInvalidUsage if `excluded` differs (naming both), or on cancellation; tuttiRemoteError if
  // the others have gone on without this rank.
  Reunited Meet(const std::vector<int>& excluded, bool exact, const std::vector<int>& ended,
                const std::function<tuttiUniqueId()>& open, Deadline deadline, Cancellation cancel);
  // The links between the members of the last meeting, while they become a communicator.
  LivenessLinks& links() { return links_; }

 private:
  int rank_;
  Ranks ranks_;
  auth::SecretKey key_;
  Deadline::Milliseconds silence_;
  std::function<bool(int rank)> reaches_;
  std::unique_ptr<auth::Doorkeeper> keeper_;
  // Connections of the last meeting stay open until the next; otherwise its last messages might be lost.
  std::vector<auth::SecureChannel> last_;
  LivenessLinks links_;
};

}  // namespace tutti::shrink
