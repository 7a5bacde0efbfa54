#include "tools/run/ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/plain_text.h"
#include "net/socket.h"
#include "topology/detect/host.h"

extern char** environ;

namespace tutti::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSignalBase = 128;  // of a shell's exit status
constexpr const char* kThreadsOfRank = "OMP_NUM_THREADS";
constexpr std::size_t kLongestLine = 64 << 10;  // a longer one is cut, so that it costs no more memory

// A port of loopback that is free now. Rank 0 opens it again; nothing holds it in between, as with other launchers.
int FreePort() {
  const auto listening = net::Listen(net::SocketAddress::Loopback(false, 0));
  if (!listening.socket) Throw(tuttiSystemError, "cannot open a port of loopback: {}", std::strerror(listening.error));
  return net::LocalAddress(listening.socket).port;
}

std::vector<std::string> EnvironmentOf(int rank, const RanksWanted& wanted, int port) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  const auto set = [&](const std::string& name, const std::string& value) {
    std::erase_if(variables, [&](const auto& each) { return each.starts_with(name + "="); });
    variables.push_back(name + "=" + value);
  };
  for (const char* const prefix : {"", "LOCAL_"}) {
    set(fmt::format("{}RANK", prefix), std::to_string(rank));
    set(fmt::format("{}WORLD_SIZE", prefix), std::to_string(wanted.ranks));
  }
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(port));
  // Without it PyTorch and OpenBLAS start a thread for each core in every rank, and the ranks wait for one another's.
  if (std::getenv(kThreadsOfRank) == nullptr) {
    const int cores = detect::CountCpus(detect::AllowedCpus());
    set(kThreadsOfRank, std::to_string(std::max(1, cores / wanted.ranks)));
  }
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct RankProcess {
  pid_t pid = -1;
  std::optional<RankEnd> end = {};
  Clock::time_point started = Clock::now();
  FileDescriptor output = {};  // where its lines are tagged
  std::string line = {};       // the beginning of one that has not ended
  int not_executed = 0;        // errno of its exec
};

// The signals that this process takes, and gives to the ranks.
class Signals {
 public:
  Signals() {
    sigemptyset(&taken_);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&taken_, number);
    if (sigprocmask(SIG_BLOCK, &taken_, &before_) != 0) ThrowErrno("sigprocmask");
    descriptor_ = FileDescriptor(signalfd(-1, &taken_, SFD_CLOEXEC | SFD_NONBLOCK));
    if (descriptor_.get() < 0) ThrowErrno("signalfd");
  }
  ~Signals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return descriptor_.get(); }
  const sigset_t& before() const { return before_; }
  // The next one that has come; 0: none.
  int Next() const {
    signalfd_siginfo info{};
    return read(descriptor_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t taken_{}, before_{};
  FileDescriptor descriptor_;
};

// To read from, and to write to.
std::pair<FileDescriptor, FileDescriptor> Pipe() {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) ThrowErrno("pipe");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

RankProcess Start(int rank, const RanksWanted& wanted, int port, const sigset_t& signals) {
  auto arguments = wanted.command;
  auto variables = EnvironmentOf(rank, wanted, port);
  const auto argv = Pointers(arguments), envp = Pointers(variables);
  auto [reader, writer] = wanted.tag ? Pipe() : std::pair<FileDescriptor, FileDescriptor>();
  auto [failed, failing] = Pipe();  // closed by an exec that succeeds
  const pid_t parent = getpid();
  RankProcess process{fork()};
  if (process.pid < 0) ThrowErrno("fork");
  if (process.pid == 0) {  // only async-signal-safe calls from here to exec
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(kCannotExecute);
    if (rank != 0) {  // one process reads the terminal
      const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
      dup2(null, STDIN_FILENO);
    }
    if (writer.get() >= 0) {
      dup2(writer.get(), STDOUT_FILENO);
      dup2(writer.get(), STDERR_FILENO);
    }
    sigprocmask(SIG_SETMASK, &signals, nullptr);
    execvpe(argv[0], argv.data(), envp.data());
    const int why = errno;
    [[maybe_unused]] const auto told = write(failing.get(), &why, sizeof why);
    _exit(kCannotExecute);
  }
  process.output = std::move(reader);
  failing = FileDescriptor();
  ssize_t got = -1;
  do {
    got = read(failed.get(), &process.not_executed, sizeof process.not_executed);
  } while (got < 0 && errno == EINTR);
  return process;
}

class Job {
 public:
  explicit Job(const RanksWanted& wanted) : wanted_(wanted) {
    const int port = FreePort();
    // If one rank cannot execute the program, none can, so one says so for all.
    for (int rank = 0; rank < wanted.ranks && first_failure_ == 0; ++rank) {
      ranks_.push_back(Start(rank, wanted, port, signals_.before()));
      if (ranks_.back().not_executed == 0) continue;
      fmt::print(stderr, "tutti run: cannot execute {}: {}\n", Printable(wanted.command.front()),
                 ErrnoText(ranks_.back().not_executed));
      first_failure_ = kCannotExecute;
      failed_first_ = rank;
    }
  }
  ~Job() { End(SIGKILL); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  JobEnd Wait() {
    while (Alive() || OutputIsOpen()) {
      PollOnce();
      for (int number = signals_.Next(); number != 0; number = signals_.Next()) {
        if (number != SIGCHLD) PassOn(number);
      }
      Reap();
      if (!deadline_ || Clock::now() < *deadline_ || !Alive()) continue;
      End(ending_);
      ending_ = SIGKILL;
      deadline_ = Clock::now() + wanted_.patience;
    }
    JobEnd end{first_failure_, failed_first_, {}};
    for (const auto& rank : ranks_) end.ranks.push_back(*rank.end);
    return end;
  }

 private:
  bool Alive() const {
    return std::ranges::any_of(ranks_, [](const auto& rank) { return !rank.end; });
  }
  // A process that a rank has left behind may keep the output open; it is waited for while a rank lives.
  bool OutputIsOpen() const {
    return !deadline_ && std::ranges::any_of(ranks_, [](const auto& rank) { return rank.output.get() >= 0; });
  }

  void PollOnce() {
    std::vector<pollfd> polled{{signals_.descriptor(), POLLIN, 0}};
    for (const auto& rank : ranks_) polled.push_back({rank.output.get(), POLLIN, 0});  // -1 is ignored
    constexpr int kLookEveryMs = 100;
    poll(polled.data(), polled.size(), kLookEveryMs);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (polled[r + 1].revents != 0) Tag(static_cast<int>(r));
    }
  }

  // Reads what the rank has written, and writes its lines.
  void Tag(int rank) {
    auto& process = ranks_[static_cast<std::size_t>(rank)];
    std::array<char, 4096> bytes;
    const auto got = read(process.output.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) return;
    if (got <= 0) {
      if (!process.line.empty()) fmt::print("[{}] {}\n", rank, process.line);
      process.output = FileDescriptor();
    }
    for (ssize_t i = 0; i < got; ++i) {
      const char c = bytes[static_cast<std::size_t>(i)];
      if (c != '\n') {
        process.line += c;
        if (process.line.size() < kLongestLine) continue;
      }
      fmt::print("[{}] {}\n", rank, process.line);
      process.line.clear();
    }
    std::fflush(stdout);
  }

  // The terminal sends Ctrl-C to the ranks itself; another process sends a signal to this one alone. A rank that gets
  // one twice is none the worse.
  void PassOn(int number) {
    End(number);
    if (!deadline_) deadline_ = Clock::now() + wanted_.patience;
    if (first_failure_ == 0) first_failure_ = kSignalBase + number;
  }

  void Reap() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      auto& rank = ranks_[r];
      int status = 0;
      if (rank.end || waitpid(rank.pid, &status, WNOHANG) != rank.pid) continue;
      const bool killed = WIFSIGNALED(status);
      const int code = killed ? kSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
      rank.end = {rank.pid, code, killed ? WTERMSIG(status) : 0,
                  std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - rank.started)};
      if (code == 0) continue;
      if (first_failure_ == 0) {
        first_failure_ = code;
        failed_first_ = static_cast<int>(r);
        fmt::print(stderr, "tutti run: rank {} (pid {}) {}\n", r, rank.pid,
                   killed ? fmt::format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
                          : fmt::format("ended with status {}", code));
      }
      if (!deadline_) deadline_ = Clock::now() + wanted_.patience;
    }
  }

  void End(int number) const {
    for (const auto& rank : ranks_) {
      if (!rank.end) kill(rank.pid, number);
    }
  }

  const RanksWanted& wanted_;
  const Signals signals_;
  std::vector<RankProcess> ranks_;
  std::optional<Clock::time_point> deadline_;  // set once a rank has failed or a signal has come
  int ending_ = SIGTERM;                       // what the remaining ranks get at the deadline
  int first_failure_ = 0;
  std::optional<int> failed_first_;
};

}  // namespace

JobEnd RunRanks(const RanksWanted& wanted) { return Job(wanted).Wait(); }

}  // namespace tutti::tools
