#include "bench/driver/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

extern char** environ;

namespace tutti::bench {
namespace {

constexpr Milliseconds kPatience{2000};  // in this time a finished launcher removes its session files

std::string Describe(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  }
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentWith(const Environment& additions) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) result.emplace_back(*entry);
  for (const auto& [name, value] : additions) result.push_back(name + "=" + value);
  return result;
}

}  // namespace

Process::Process(const std::vector<std::string>& command, const Environment& additions, Output output)
    : output_(::memfd_create("output", MFD_CLOEXEC)) {
  if (!output_.valid()) throw std::runtime_error(fmt::format("memfd_create: {}", std::strerror(errno)));
  std::vector<std::string> arguments = command;
  std::vector<std::string> variables = EnvironmentWith(additions);
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(variables);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error(fmt::format("cannot start {}: fork: {}", command[0], std::strerror(errno)));
  if (pid_ == 0) {  // only async-signal-safe calls from here to exec
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(null, STDIN_FILENO);
    if (output == Output::keep) ::dup2(output_.get(), STDERR_FILENO);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);  // stdout is for the table
    ::execvpe(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::setpgid(pid_, pid_);  // in parent and child, since either may run first
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), output_(std::move(other.output_)), outcome_(std::move(other.outcome_)) {}

Process::~Process() { End(); }

std::optional<std::string> Process::Outcome(Milliseconds wait) {
  const auto deadline = std::chrono::steady_clock::now() + wait;
  while (!outcome_ && pid_ > 0) {
    int status = 0;
    const pid_t reaped = ::waitpid(pid_, &status, WNOHANG);
    if (reaped == pid_) {
      outcome_ = Describe(status);
    } else if (reaped < 0 && errno != EINTR) {
      outcome_ = "is gone";
    } else if (std::chrono::steady_clock::now() >= deadline) {
      break;
    } else {
      std::this_thread::sleep_for(Milliseconds(2));
    }
  }
  return outcome_;
}

void Process::End() {
  if (pid_ <= 0) return;
  if (!outcome_) {
    ::kill(-pid_, SIGTERM);
    if (!Outcome(kPatience)) {
      ::kill(-pid_, SIGKILL);
      Outcome(kPatience);
    }
  }
  pid_ = -1;
}

std::string Process::LastLines(int lines) const {
  struct stat status {};
  if (!output_.valid() || ::fstat(output_.get(), &status) != 0) return {};
  constexpr off_t kTail = 16384;
  const off_t start = std::max<off_t>(0, status.st_size - kTail);
  std::string text(static_cast<std::size_t>(status.st_size - start), '\0');
  const ssize_t size = ::pread(output_.get(), text.data(), text.size(), start);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, size)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::size_t cut = text.size();
  for (int i = 0; i < lines && cut != std::string::npos && cut != 0; ++i) cut = text.rfind('\n', cut - 1);
  return cut == std::string::npos || cut == 0 ? text : text.substr(cut + 1);
}

}  // namespace tutti::bench
