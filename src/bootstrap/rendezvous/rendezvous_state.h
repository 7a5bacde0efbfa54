// The rendezvous' logic: receives the ranks of one job and gives all of them the same verdict: the roster and where
// rank 0 listens, or the reason for failure (a rank missing or taken twice, another nranks or library version, a rank
// that left). It only reacts; its thread lives elsewhere (rendezvous.h).
//
// Invariant: there is at most one verdict, and it never changes; ranks that come later get it too. Ranks stay connected
// until all have met at rank 0. If that fails, because a rank leaves before or rank 0 reports a failure, the ranks
// still connected get the reason, once.
// Thread-safety: one thread at a time. Nothing here blocks.
#pragma once

#include <poll.h>

#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "net/auth/handshake_pool.h"
#include "src/bootstrap/join_messages.h"

namespace tutti::bootstrap {

class RendezvousState {
 public:
  // After the first rank has joined, waits at most `patience` for each further one. The ranks' own deadlines are
  // usually shorter and take effect first.
  RendezvousState(auth::HandshakePool handshakes, Deadline::Milliseconds patience);

  // As in HandshakePool.
  void Watch(std::vector<pollfd>& fds) const;
  Deadline NextDeadline() const;
  void Advance(std::span<const pollfd> fds);
  // Every rank has its verdict, or no more ranks will come.
  bool done() const { return done_; }
  // There is a verdict.
  bool decided() const { return verdict_.has_value(); }
  // Closes the rendezvous; waiting ranks notice.
  void Close();

 private:
  struct JoiningRank {
    auth::SecureChannel channel;
    int rank;
    int nranks;
    bool joined = false;
    bool told = false;
  };
  struct Joined {
    Process process;
    int nranks;
  };

  void Listen(JoiningRank& joining);
  void Join(JoiningRank& joining, const JoinRequest& request);
  void Complete();
  void Fail(tuttiResult_t code, std::string message);
  void Decide(Verdict verdict, Deadline::Milliseconds linger);
  template <typename Tell>
  void ForAllOwnLast(Tell&& tell);
  void TellAll();
  void TellOfLeaving(int rank);
  void Forward(const Failure& failure);
  std::string DescribeMissing() const;

  auth::HandshakePool handshakes_;
  Deadline::Milliseconds patience_;
  Deadline deadline_;  // before a verdict: for the next rank to join; after: for the last to get it
  std::list<JoiningRank> joining_;
  std::map<int, Joined> joined_;  // by rank
  std::map<int, Deadline> lost_;  // ranks whose connection ended before they joined; when they count as gone
  std::vector<net::SocketAddress> hub_;
  std::optional<Verdict> verdict_;
  std::set<int> told_;  // ranks
  bool forwarded_ = false;
  bool done_ = false;
};

}  // namespace tutti::bootstrap
