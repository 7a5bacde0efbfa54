#include "testing/ranks.h"

#include <gtest/gtest-spi.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

// Present if the address sanitizer is. A rank exits by _exit, so it runs the leak check explicitly.
extern "C" int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
// Read by the thread sanitizer. A rank exits by _exit, so it does not join the thread that served its rendezvous. In
// some tests, children of fork() create threads.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "report_thread_leaks=0:die_after_fork=0";
}

namespace tutti::testing {
namespace {

// One message from a rank's process to the test's: a kind, then its text, with lengths before them.
enum class Kind : std::uint8_t { failure, note, finished };

struct Message {
  Kind kind = Kind::note;
  int rank = 0;
  int line = 0;
  std::string file;
  std::string text;
};

struct Header {
  Kind kind;
  std::int32_t rank;
  std::int32_t line;
  std::uint32_t file_bytes;
  std::uint32_t text_bytes;
};

class Sender {
 public:
  explicit Sender(int fd) : fd_(fd) {}

  void Send(const Message& message) {
    const Header header{message.kind, message.rank, message.line, static_cast<std::uint32_t>(message.file.size()),
                        static_cast<std::uint32_t>(message.text.size())};
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    bytes += message.file + message.text;
    const std::lock_guard lock(mutex_);
    for (std::size_t done = 0; done < bytes.size();) {
      const auto written = write(fd_, bytes.data() + done, bytes.size() - done);
      if (written < 0 && errno != EINTR) return;
      if (written > 0) done += static_cast<std::size_t>(written);
    }
  }

 private:
  std::mutex mutex_;
  int fd_;
};

// Takes whole messages off the front of `bytes`.
std::vector<Message> TakeMessages(std::string& bytes) {
  std::vector<Message> messages;
  for (;;) {
    Header header;
    if (bytes.size() < sizeof header) return messages;
    std::memcpy(&header, bytes.data(), sizeof header);
    const std::size_t total = sizeof header + header.file_bytes + header.text_bytes;
    if (bytes.size() < total) return messages;
    messages.push_back({header.kind, header.rank, header.line, bytes.substr(sizeof header, header.file_bytes),
                        bytes.substr(sizeof header + header.file_bytes, header.text_bytes)});
    bytes.erase(0, total);
  }
}

struct Process {
  pid_t pid = -1;
  int fd = -1;
  int first_rank = 0;
  std::string received = {};
};

// Returns whether the rank's process can be checked for leaks.
bool RunOneRank(int rank, int size, Board& board, Sender& sender, bool alone, const std::function<void(Rank&)>& body) {
  using Reporter = ::testing::ScopedFakeTestPartResultReporter;
  Rank self(
      rank, size, board,
      [&](std::string text) {
        sender.Send({Kind::note, rank, 0, "", std::move(text)});
      },
      !alone);
  ::testing::TestPartResultArray results;
  {
    // A rank that is alone in its process also reports failures in its own threads.
    const Reporter reporter(alone ? Reporter::INTERCEPT_ALL_THREADS : Reporter::INTERCEPT_ONLY_CURRENT_THREAD,
                            &results);
    try {
      body(self);
    } catch (const std::exception& exception) {
      ADD_FAILURE() << "threw " << exception.what();
    }
  }
  for (int i = 0; i < results.size(); ++i) {
    const auto& result = results.GetTestPartResult(i);
    if (!result.failed()) continue;
    const char* file = result.file_name();
    sender.Send({Kind::failure, rank, result.line_number(), file == nullptr ? "" : file, result.message()});
  }
  sender.Send({Kind::finished, rank, 0, "", ""});
  return !self.exits_with_live_comm();
}

// Where the surroundings ask for it (TUTTI_TEST_DEVICES_EACH=1), a process has one of the fake GPUs, as launchers give
// one to each rank.
void ShowOneDevice(int first_rank) {
  const char* const each = std::getenv("TUTTI_TEST_DEVICES_EACH");
  const char* const all = std::getenv("TUTTI_FAKE_GPU_DEVICES");
  const int devices = all == nullptr ? 1 : std::atoi(all);
  if (each != nullptr && devices > 0) setenv("CUDA_VISIBLE_DEVICES", std::to_string(first_rank % devices).c_str(), 0);
}

[[noreturn]] void BeProcess(int first_rank, int ranks_here, int size, Board& board, int fd, const RunOptions& options,
                            const std::function<void(Rank&)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  setenv("TUTTI_SOCKET_IFNAME", "=lo", 1);  // tests use only loopback
  ShowOneDevice(first_rank);
  {
    Sender sender(fd);
    std::atomic<bool> all_freed = true;
    const auto run = [&](int rank, bool alone) {
      if (!RunOneRank(rank, size, board, sender, alone, body)) all_freed = false;
    };
    if (ranks_here == 1) {
      run(first_rank, true);
    } else {
      std::vector<std::thread> threads;
      for (int r = 0; r < ranks_here; ++r) {
        threads.emplace_back(run, first_rank + r, false);
      }
      for (auto& thread : threads) thread.join();
    }
    if (all_freed && __lsan_do_recoverable_leak_check != nullptr && __lsan_do_recoverable_leak_check() != 0) {
      sender.Send({Kind::failure, first_rank, 0, "", "memory leaked; the sanitizer's report is above"});
    }
  }
  _exit(0);
}

Process Start(int first_rank, int ranks_here, int size, Board& board, const RunOptions& options,
              const std::function<void(Rank&)>& body, const std::vector<Process>& earlier) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    for (const auto& process : earlier) close(process.fd);  // a rank has only its own descriptors
    BeProcess(first_rank, ranks_here, size, board, ends[1], options, body);
  }
  close(ends[1]);
  return {pid, ends[0], first_rank};
}

// Reads from all processes until each has closed its pipe or time is up. Returns whether all are done.
bool Collect(std::vector<Process>& processes, std::chrono::steady_clock::time_point end) {
  for (;;) {
    std::vector<pollfd> entries;
    std::vector<Process*> owners;
    for (auto& process : processes) {
      if (process.fd < 0) continue;
      entries.push_back({process.fd, POLLIN, 0});
      owners.push_back(&process);
    }
    if (entries.empty()) return true;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    if (poll(entries.data(), entries.size(), static_cast<int>(left.count())) <= 0) continue;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].revents == 0) continue;
      char buffer[4096];
      const auto got = read(entries[i].fd, buffer, sizeof buffer);
      if (got > 0) {
        owners[i]->received.append(buffer, static_cast<std::size_t>(got));
      } else if (got == 0 || errno != EINTR) {
        close(std::exchange(owners[i]->fd, -1));
      }
    }
  }
}

// Memory shared with all processes that are forked later.
struct Unmap {
  void operator()(Board* board) const { munmap(board, sizeof(Board)); }
};
std::unique_ptr<Board, Unmap> NewBoard() {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return std::unique_ptr<Board, Unmap>(memory == MAP_FAILED ? nullptr : static_cast<Board*>(memory));
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) return std::string("was ended by signal ") + strsignal(WTERMSIG(status));
  return "exited with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

Comm& Comm::operator=(Comm&& other) noexcept {
  if (this != &other) {
    Destroy();
    handle_ = other.Release();
  }
  return *this;
}

void Comm::Destroy() {
  if (handle_ == nullptr) return;
  EXPECT_TRUE(Ok(tuttiCommDestroy(std::exchange(handle_, nullptr))));
}

tuttiUniqueId Rank::IdOf(int which) const {
  auto& id = board_.ids.at(static_cast<std::size_t>(which));
  if (rank_ == 0 && !id.ready.load(std::memory_order_acquire)) {
    EXPECT_TRUE(Ok(tuttiGetUniqueId(&id.value)));
    id.ready.store(true, std::memory_order_release);
  }
  while (!id.ready.load(std::memory_order_acquire)) sched_yield();
  return id.value;
}

Comm Rank::Join(tuttiConfig_t* config, int which) const {
  Comm comm;
  EXPECT_TRUE(Ok(tuttiCommInitRankConfig(comm.address(), size_, IdOf(which), rank_, config)));
  return comm;
}

void Rank::ExitWithLive(Comm comm) {
  comm.Release();
  exits_with_live_comm_ = true;
}

void Rank::Meet() {
  board_.arrivals.fetch_add(1, std::memory_order_acq_rel);
  const int wanted = ++meetings_ * size_;
  while (board_.arrivals.load(std::memory_order_acquire) < wanted) sched_yield();
}

std::vector<Outcome> RunRanks(int size, const std::function<void(Rank&)>& body, const RunOptions& options) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(size));
  const auto board = NewBoard();
  if (board == nullptr) {
    ADD_FAILURE() << "no memory";
    return outcomes;
  }
  std::vector<Process> processes;
  const int ranks_here = options.threads ? size : 1;
  for (int r = 0; r < size; r += ranks_here) {
    processes.push_back(Start(r, ranks_here, size, *board, options, body, processes));
  }

  const bool in_time = Collect(processes, std::chrono::steady_clock::now() + options.limit);
  for (auto& process : processes) {
    const bool late = process.fd >= 0;
    if (late) {
      kill(process.pid, SIGKILL);
      close(process.fd);
    }
    int status = 0;
    waitpid(process.pid, &status, 0);
    for (const auto& message : TakeMessages(process.received)) {
      auto& outcome = outcomes[static_cast<std::size_t>(message.rank)];
      if (message.kind == Kind::finished) outcome.finished = true;
      if (message.kind == Kind::note) outcome.notes.push_back(message.text);
      if (message.kind == Kind::failure) {
        ADD_FAILURE_AT(message.file.empty() ? __FILE__ : message.file.c_str(), message.line)
            << "rank " << message.rank << " of " << size << ": " << message.text;
      }
    }
    for (int r = process.first_rank; r < process.first_rank + ranks_here; ++r) {
      const bool allowed = std::find(options.may_die.begin(), options.may_die.end(), r) != options.may_die.end();
      if (outcomes[static_cast<std::size_t>(r)].finished || (allowed && !late)) continue;
      ADD_FAILURE() << "rank " << r << " of " << size << " "
                    << (late ? "was not done in time" : HowItEnded(status) + " before it was done");
    }
  }
  EXPECT_TRUE(in_time) << "the ranks took longer than " << options.limit.count() << " s";
  return outcomes;
}

Outcome RunAlone(const std::function<void()>& body, const RunOptions& options) {
  return RunRanks(
             1, [&](Rank&) { body(); }, options)
      .front();
}

void KillThisProcessAfter(std::chrono::microseconds delay) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer;
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  const auto ns = std::max<std::int64_t>(1, std::chrono::nanoseconds(delay).count());
  itimerspec when{};
  when.it_value = {ns / 1'000'000'000, ns % 1'000'000'000};
  timer_settime(timer, 0, &when, nullptr);
}

std::int64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

::testing::AssertionResult Ok(tuttiResult_t result) {
  if (result == tuttiSuccess) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << tuttiGetErrorString(result) << ": " << tuttiGetLastError(nullptr);
}

::testing::AssertionResult Fails(tuttiResult_t result, tuttiResult_t wanted, const std::vector<std::string>& words) {
  const std::string message = tuttiGetLastError(nullptr);
  if (result != wanted) {
    return ::testing::AssertionFailure() << "wanted " << tuttiGetErrorString(wanted) << ", got "
                                         << tuttiGetErrorString(result) << ": " << message;
  }
  for (const auto& word : words) {
    if (message.find(word) == std::string::npos) {
      return ::testing::AssertionFailure() << '"' << word << "\" is not in: " << message;
    }
  }
  return ::testing::AssertionSuccess();
}

tuttiResult_t AllReduce(tuttiComm_t comm, std::vector<float>& data) {
  return tuttiAllReduce(data.data(), data.data(), data.size(), tuttiFloat32, tuttiSum, comm, nullptr);
}

int RankIn(tuttiComm_t comm) {
  int rank = -1;
  EXPECT_TRUE(Ok(tuttiCommUserRank(comm, &rank)));
  return rank;
}

int SizeOf(tuttiComm_t comm) {
  int size = -1;
  EXPECT_TRUE(Ok(tuttiCommCount(comm, &size)));
  return size;
}

tuttiResult_t Await(tuttiComm_t comm) {
  for (;;) {
    tuttiResult_t state = tuttiSuccess;
    const auto asked = tuttiCommGetAsyncError(comm, &state);
    if (asked != tuttiSuccess) return asked;
    if (state != tuttiInProgress) return state;
    sched_yield();
  }
}

}  // namespace tutti::testing
