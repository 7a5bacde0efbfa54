// Runs a test's body as several ranks: forked processes, or threads of one forked process. The test's own process never
// uses the library and stays single-threaded, so every test starts fresh and can be killed at any moment.
//
// EXPECT_* and ASSERT_* work inside the body: their failures are sent to the test's process, which reports them with
// their rank. A rank that dies unexpectedly, or exceeds its time, is a failure, too; nothing keeps running.
//
// Thread-safety: RunRanks is for one thread. A Rank belongs to its thread.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::testing {

// A communicator that is destroyed when it leaves its scope.
class Comm {
 public:
  Comm() = default;
  explicit Comm(tuttiComm_t handle) : handle_(handle) {}
  Comm(Comm&& other) noexcept : handle_(other.Release()) {}
  Comm& operator=(Comm&& other) noexcept;
  ~Comm() { Destroy(); }

  operator tuttiComm_t() const { return handle_; }  // NOLINT: stands for the handle in every call
  tuttiComm_t* address() { return &handle_; }
  tuttiComm_t Release() { return std::exchange(handle_, nullptr); }
  void Destroy();

 private:
  tuttiComm_t handle_ = nullptr;
};

// Memory that all ranks of a test share, to meet before they have a communicator and to exchange data besides it. The
// kernel zeroes it.
struct Board {
  struct Id {
    std::atomic<bool> ready;
    tuttiUniqueId value;
  };
  std::array<Id, 8> ids;
  std::atomic<int> arrivals;
  std::array<std::atomic<std::int64_t>, 8> numbers;  // for the test's own use
};

class Rank {
 public:
  Rank(int rank, int size, Board& board, std::function<void(std::string)> note, bool threads = false)
      : rank_(rank), size_(size), threads_(threads), board_(board), note_(std::move(note)) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  // All ranks are threads of one process.
  bool threads() const { return threads_; }
  Board& board() const { return board_; }

  // Joins all ranks of the test into a communicator. `which` distinguishes the communicators of one test; rank 0 opens
  // it.
  Comm Join(tuttiConfig_t* config = nullptr, int which = 0) const;
  // The id that rank 0 made.
  tuttiUniqueId IdOf(int which = 0) const;
  // Waits for all ranks, without the library.
  void Meet();
  // Keeps the communicator alive until its process exits, as a program does that never calls tuttiCommDestroy. The
  // process is then not checked for leaks: UCX holds the memory of a live endpoint in pages that it mapped itself, and
  // LeakSanitizer does not look for pointers there.
  void ExitWithLive(Comm comm);
  bool exits_with_live_comm() const { return exits_with_live_comm_; }
  // Sends text to the test's process.
  void Note(std::string text) const { note_(std::move(text)); }

 private:
  int rank_;
  int size_;
  bool threads_;
  Board& board_;
  int meetings_ = 0;
  bool exits_with_live_comm_ = false;
  std::function<void(std::string)> note_;
};

struct RunOptions {
  bool threads = false;                                               // ranks are threads of one process
  std::chrono::seconds limit{60};                                     // after this, processes that still run are killed
  std::vector<std::pair<std::string, std::string>> environment = {};  // set before the library is used
  std::vector<int> may_die = {};                                      // ranks whose death by a signal is no failure
};

// The outcome of one rank.
struct Outcome {
  bool finished = false;  // the body returned
  std::vector<std::string> notes;
};

std::vector<Outcome> RunRanks(int size, const std::function<void(Rank&)>& body, const RunOptions& options = {});
// Runs one rank, for tests without peers.
Outcome RunAlone(const std::function<void()>& body, const RunOptions& options = {});

// Another number in each iteration of a campaign (--gtest_shuffle --gtest_random_seed=1 --gtest_repeat=N); else 0.
inline std::uint32_t Iteration() {
  return ::testing::GTEST_FLAG(shuffle) ? static_cast<std::uint32_t>(::testing::UnitTest::GetInstance()->random_seed())
                                        : 0;
}
// Kills this process by SIGKILL after `delay`, whatever it is doing then.
void KillThisProcessAfter(std::chrono::microseconds delay);
// Nanoseconds of the monotonic clock, which all processes share.
std::int64_t MonotonicNs();

// Success, or the library's message for this thread's last failure.
::testing::AssertionResult Ok(tuttiResult_t result);
// `result` is `wanted`, and the message contains each of `words`.
::testing::AssertionResult Fails(tuttiResult_t result, tuttiResult_t wanted,
                                 const std::vector<std::string>& words = {});
// The sum of all ranks' data, in place.
tuttiResult_t AllReduce(tuttiComm_t comm, std::vector<float>& data);
int RankIn(tuttiComm_t comm);
int SizeOf(tuttiComm_t comm);
// Waits for a non-blocking communicator; returns its final state.
tuttiResult_t Await(tuttiComm_t comm);

}  // namespace tutti::testing
