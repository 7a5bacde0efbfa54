// Ranks for tests/faults/mismatch_campaign.py. Reads trials from stdin, one a line:
//
//   number ranks hosts threads helpers mode times before.. / the call of rank 0 .. n-1 / next
//
// with calls as in calls.h. Ranks join and make the matching calls `before`. Then each rank makes its own call `times`
// times, and all make the matching call `next`. Prints one line per rank: what ended it, when, and its message:
//
//   number rank answer stage ms sentence       answer: a tuttiResult_t, or "hung", "died", "wrong"
//
// ms counts from the moment when the last rank makes its first differing call.
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "tests/faults/campaign/calls.h"

namespace tutti::testing {
namespace {

constexpr int kMostRanks = 16;
constexpr int kLimitMs = 30'000;  // after this, the trial counts as hung

struct Trial {
  int number = 0, ranks = 0, hosts = 1, threads = 0, helpers = 1, times = 1;
  std::string mode;  // plain, stream, group, nonblocking
  std::vector<Call> before, own;
  Call next;
};

Trial ParseTrial(const std::string& line) {
  std::istringstream words(line);
  Trial trial;
  words >> trial.number >> trial.ranks >> trial.hosts >> trial.threads >> trial.helpers >> trial.mode >> trial.times;
  std::string word;
  while (words >> word && word != "/") trial.before.push_back(ParseCall(word));
  while (words >> word && word != "/") trial.own.push_back(ParseCall(word));
  words >> word;
  trial.next = ParseCall(word);
  return trial;
}

std::int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// Shared by the ranks of a trial.
struct Board {
  tuttiUniqueId id;
  std::atomic<int> arrivals;
  std::atomic<std::int64_t> last_call_ns;  // when the last rank reached the differing calls
  struct Told {
    std::atomic<int> done;  // written last
    int code;
    char answer[8], stage[8];
    std::int64_t ns;
    char sentence[1600];
  };
  Told told[kMostRanks];
};

class TrialRank {
 public:
  TrialRank(const Trial& trial, int rank, Board& board)
      : trial_(trial), rank_(rank), board_(board), caller_(rank, trial.ranks) {}

  void Run() {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    const bool blocking = trial_.mode != "nonblocking";
    if (!blocking) config.blocking = 0;
    if (Finish(tuttiCommInitRankConfig(&comm_, trial_.ranks, board_.id, rank_, &config)) != tuttiSuccess) {
      return Tell("join", code_);
    }
    if (trial_.mode == "stream") tuttiStreamCreate(&stream_);
    for (const auto& call : trial_.before) {
      if (!Do(call, 1)) return Tell("before", code_);
    }
    Meet();
    Raise(board_.last_call_ns, NowNs());
    if (!Do(trial_.own[static_cast<std::size_t>(rank_)], trial_.times)) {
      Tell("call", code_);
    } else if (!Do(trial_.next, 1)) {
      Tell("next", code_);
    } else {
      Tell("silent", tuttiSuccess);
    }
    Meet();  // no rank leaves before all have checked
    tuttiCommDestroy(comm_);
    if (stream_ != nullptr) tuttiStreamDestroy(stream_);
  }

 private:
  // Returns false if the call failed or its result is wrong.
  bool Do(const Call& call, int times) {
    if (call.kind == "idle") return true;
    const bool group = trial_.mode == "group";
    caller_.Prepare(call);
    if (group) code_ = tuttiGroupStart();
    for (int i = 0; i < times && code_ == tuttiSuccess; ++i) {
      code_ = caller_.Make(call, comm_, stream_);
      if (!group) code_ = Finish(code_);
    }
    if (group) {
      const auto ended = tuttiGroupEnd();
      if (code_ == tuttiSuccess) code_ = Finish(ended);
    }
    if (code_ == tuttiSuccess && stream_ != nullptr) code_ = tuttiStreamSynchronize(stream_);
    if (code_ != tuttiSuccess) return false;
    wrong_ = !caller_.Right(call);
    return !wrong_;
  }

  tuttiResult_t Finish(tuttiResult_t result) {
    while (result == tuttiInProgress) {
      if (tuttiCommGetAsyncError(comm_, &result) != tuttiSuccess) result = tuttiInternalError;
      if (result == tuttiInProgress) usleep(100);
    }
    return result;
  }

  void Meet() {
    board_.arrivals.fetch_add(1);
    const int wanted = ++meetings_ * trial_.ranks;
    while (board_.arrivals.load() < wanted) usleep(200);
  }

  static void Raise(std::atomic<std::int64_t>& most, std::int64_t value) {
    auto now = most.load();
    while (now < value && !most.compare_exchange_weak(now, value)) {
    }
  }

  void Tell(const char* stage, tuttiResult_t code) {
    auto& told = board_.told[rank_];
    told.ns = NowNs();
    told.code = code;
    std::snprintf(told.answer, sizeof told.answer, "%s", wrong_ ? "wrong" : std::to_string(code).c_str());
    std::snprintf(told.stage, sizeof told.stage, "%s", stage);
    std::snprintf(told.sentence, sizeof told.sentence, "%s", code == tuttiSuccess ? "" : tuttiGetLastError(comm_));
    told.done.store(1);
  }

  const Trial& trial_;
  int rank_;
  Board& board_;
  Caller caller_;
  tuttiComm_t comm_ = nullptr;
  tuttiStream_t stream_ = nullptr;
  tuttiResult_t code_ = tuttiSuccess;
  bool wrong_ = false;
  int meetings_ = 0;
};

// REQUIRES: the library has not been used yet.
void SetEnvironment(const Trial& trial) {
  setenv("TUTTI_SOCKET_IFNAME", "=lo", 1);  // campaigns use only loopback
  setenv("TUTTI_VIRTUAL_HOSTS", std::to_string(trial.hosts).c_str(), 1);
  setenv("TUTTI_THREADS", std::to_string(trial.helpers).c_str(), 1);
}

[[noreturn]] void BeProcess(const Trial& trial, int first, int ranks_here, Board& board) {
  std::vector<std::thread> threads;
  for (int r = first + 1; r < first + ranks_here; ++r) {
    threads.emplace_back([&, r] { TrialRank(trial, r, board).Run(); });
  }
  // The process that creates the id hosts its rendezvous.
  TrialRank(trial, first, board).Run();
  for (auto& thread : threads) thread.join();
  _exit(0);
}

void Print(const Trial& trial, int rank, const Board& board, const char* otherwise) {
  const auto& told = board.told[rank];
  if (told.done.load() == 0) {
    std::printf("%d %d %s - 0\n", trial.number, rank, otherwise);
    return;
  }
  const auto ms = static_cast<double>(told.ns - board.last_call_ns.load()) / 1e6;
  std::printf("%d %d %s %s %.1f %s\n", trial.number, rank, told.answer, told.stage, std::max(0.0, ms), told.sentence);
}

void RunTrial(const Trial& trial) {
  auto* const board =
      static_cast<Board*>(mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (board == MAP_FAILED) std::abort();
  int ready[2];
  if (pipe(ready) != 0) std::abort();
  std::vector<pid_t> pids;
  const int ranks_here = trial.threads != 0 ? trial.ranks : 1;
  for (int first = 0; first < trial.ranks; first += ranks_here) {
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      SetEnvironment(trial);
      if (first == 0) {
        tuttiGetUniqueId(&board->id);
        close(ready[0]);
        close(ready[1]);
      } else {
        char byte;
        close(ready[1]);
        [[maybe_unused]] const auto got = read(ready[0], &byte, 1);  // returns when rank 0 closes its end
        close(ready[0]);
      }
      BeProcess(trial, first, ranks_here, *board);
    }
    pids.push_back(pid);
    if (first == 0) close(ready[1]);
  }
  close(ready[0]);
  const auto end = NowNs() + kLimitMs * 1'000'000LL;
  bool hung = false;
  for (const auto pid : pids) {
    while (waitpid(pid, nullptr, WNOHANG) == 0) {
      if (NowNs() > end) {
        hung = true;
        kill(pid, SIGKILL);
      }
      usleep(500);
    }
  }
  for (int r = 0; r < trial.ranks; ++r) Print(trial, r, *board, hung ? "hung" : "died");
  std::fflush(stdout);
  munmap(board, sizeof(Board));
}

}  // namespace
}  // namespace tutti::testing

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    if (!line.empty()) tutti::testing::RunTrial(tutti::testing::ParseTrial(line));
  }
  return 0;
}
