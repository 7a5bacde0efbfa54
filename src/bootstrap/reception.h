// The rendezvous' logic: receives the ranks of one job, and gives all of them the same verdict - who everybody is and
// where rank 0 listens, or why nothing will come of it (somebody missing, a rank taken twice, another nranks or library
// version, somebody who left). It only ever reacts; its thread lives elsewhere (rendezvous.h).
//
// Invariant: there is at most one verdict, and once there is one it never changes; whoever comes later gets it too.
// Ranks stay connected until all have met at rank 0. If that fails - somebody leaves before, or rank 0 says why - those
// who are still here are told, once.
// Thread-safety: one thread at a time. Nothing here blocks.
#pragma once

#include <poll.h>

#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "net/auth/lobby.h"
#include "src/bootstrap/join_messages.h"

namespace tutti {

class Reception {
 public:
  // After the first rank has joined, waits at most `patience` for each further one. The ranks' own deadlines are
  // usually shorter and then decide.
  Reception(Lobby lobby, Deadline::Milliseconds patience);

  // As in Lobby.
  void Watch(std::vector<pollfd>& fds) const;
  Deadline NextDeadline() const;
  void Advance(std::span<const pollfd> fds);
  // Everybody has been told, or nobody will come any more.
  bool done() const { return done_; }
  // There is a verdict.
  bool decided() const { return verdict_.has_value(); }
  // Ends it: ranks that wait learn that the rendezvous has gone.
  void Close();

 private:
  struct Guest {
    SecureChannel channel;
    int rank;
    int nranks;
    bool joined = false;
    bool told = false;
  };
  struct Joined {
    Process process;
    int nranks;
  };

  void Listen(Guest& guest);
  void Join(Guest& guest, const JoinRequest& request);
  void Complete();
  void Fail(tuttiResult_t code, std::string message);
  void Decide(Verdict verdict, Deadline::Milliseconds linger);
  template <typename Tell>
  void ForAllOwnLast(Tell&& tell);
  void TellAll();
  void TellOfLeaving(int rank);
  void Forward(const Failure& failure);
  std::string DescribeMissing() const;

  Lobby lobby_;
  Deadline::Milliseconds patience_;
  Deadline deadline_;  // before a verdict: for the next rank to come; after: for the last to be told
  std::list<Guest> guests_;
  std::map<int, Joined> joined_;  // by rank
  std::vector<SocketAddress> hub_;
  std::optional<Verdict> verdict_;
  std::set<int> told_;  // ranks
  bool forwarded_ = false;
  bool done_ = false;
};

}  // namespace tutti
