// The ranks of a group find each other over its board before any of them makes a communicator.
//
// Why. A board may be older than the group: torchrun keeps one store for all attempts, so a restarted job finds what
// the previous attempt wrote, and a program may make another group of the same name. A rank that took an old rank's
// word for a new one's would look for a rendezvous that is gone. So rank 0 picks a unique word, the *token*, and writes
// it on the board. Every rank answers under that token with a word of its own. When all have answered, rank 0 writes
// the *roster*, the list of their answers. A rank trusts a roster that contains its own answer, because the other ranks
// in it are then of the current attempt. No roster under an old token contains the rank's answer, so a rank that finds
// one keeps looking until the token changes. Everything else of the group is written under the token.
//
// The roster also lists every rank's process. So a rank that waits for another before they are connected can detect
// that it died (HasEnded): on its own host by looking it up, on another by what the watcher writes (lifeline.h).
//
// A background thread does this from construction on. It ends once it has the roster or, in a group that spans hosts,
// when it is stopped.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "interop/torch/csrc/board.h"
#include "interop/torch/csrc/group_identity.h"

namespace tutti::pytorch {

// How often a waiting rank checks whether the other ranks are alive.
constexpr auto kLookAfterOthers = std::chrono::milliseconds(100);

struct Roster {
  std::string token;
  std::vector<Process> processes;  // of each rank
};

class Gathering {
 public:
  // Where `identity` has the ranks' processes, one that ends before the roster is complete is a failure.
  Gathering(GroupIdentity identity, std::shared_ptr<Board> board);
  ~Gathering();  // stops it
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  // Waits for the roster. Null: `patience` ran out first. Throws Failure if the board is gone.
  const Roster* Wait(const Patience& patience);
  // The ranks that have not answered, as far as this rank can see.
  std::vector<int> Absent();
  // Whether a rank's process has certainly ended or, on another host, left the group. REQUIRES: Wait gave the roster.
  bool HasEnded(int rank) const;
  // Stops the thread, and waits for it. REQUIRES: no other thread stops it at the same time.
  void Stop();

 private:
  void Run();
  Roster Call();
  Roster Answer();
  void Tend(const Roster& roster);
  // Throws Failure if a rank's process has ended. Call it between looks at the board: it throws only after one more look.
  void CheckThatOthersLive();
  bool IsStopped() const { return stopped_.load(std::memory_order_relaxed); }  // no other data depends on it
  std::string Key(const std::string& token, const std::string& what) const;

  const GroupIdentity identity_;
  const std::shared_ptr<Board> board_;
  std::atomic<bool> stopped_{false};
  // Of the thread:
  std::chrono::steady_clock::time_point next_check_;
  int ended_ = -1;  // a rank that has ended, found at the last check; -1: none

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::unique_ptr<const Roster> roster_;
  std::exception_ptr failure_;
  bool has_far_ranks_ = false;  // written before the roster, never after
  std::string token_;           // the latest one seen
  std::thread thread_;
};

}  // namespace tutti::pytorch
