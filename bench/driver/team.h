// The ranks of one library, started and ready to be measured, and the bench's control line to each. If a rank dies,
// hangs or fails, the team is lost: it is ended, and the exception names the rank and its message. The bench goes on.
//
// Thread-safety: one thread. Invariant: destroying a team leaves no process.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/driver/launch.h"
#include "bench/driver/process.h"
#include "bench/worker/control_socket.h"
#include "bench/worker/worker.h"

namespace tutti::bench {

// After losing a rank, the time for the others to report errors.
inline constexpr Milliseconds kLastWords{1500};

class TeamLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Team {
 public:
  // Starts `ranks` ranks of the named library (launch.h), `threads` per process. Throws TeamLost.
  Team(const std::string& library, int ranks, int threads, const ClusterShape& cluster, const CallSettings& settings,
       Milliseconds timeout);
  // Ranks that were started elsewhere and will connect to `listener`.
  Team(const std::string& library, int ranks, Listener& listener, Milliseconds timeout);
  // A team that could not be started, with the reason. Never alive.
  static std::unique_ptr<Team> Refused(const std::string& library, const std::string& why);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  const std::string& library() const { return library_; }
  int ranks() const { return static_cast<int>(sockets_.size()); }
  bool alive() const { return alive_; }
  // The slowest rank's time from its first call into the library to the return of the last.
  double init_ms() const { return init_ms_; }
  // Library::About() of rank 0; "" if nothing.
  const std::string& about() const { return about_; }
  // Why it was not started; "" if it was.
  const std::string& refusal() const { return refusal_; }

  // Sends the request to all ranks and returns their replies, by rank. Throws TeamLost.
  std::vector<Json> Ask(const Json& request, Milliseconds timeout);

 private:
  explicit Team(const std::string& library) : library_(library) {}
  void Assemble(Listener& listener, int ranks, Milliseconds timeout);
  std::vector<Json> Collect(Milliseconds timeout);
  [[noreturn]] void Lose(const std::string& why);
  std::string WhyGone(std::size_t rank);

  const std::string library_;
  const int threads_ = 1;
  std::vector<std::unique_ptr<Process>> processes_;  // one launcher, or ranks / threads
  std::vector<ControlSocket> sockets_;               // by rank
  std::vector<int> pids_;                            // by rank
  bool alive_ = false;
  double init_ms_ = 0;
  std::string about_, refusal_;
};

}  // namespace tutti::bench
