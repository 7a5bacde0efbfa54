#include "transports/plugin/trial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

namespace tutti::plugin {
namespace {

constexpr const char* kProgram = "/bin/true";
constexpr std::string_view kPreload = "LD_PRELOAD=";
// The dynamic loader's own exit status: it could not resolve a symbol. dlopen() says which.
constexpr int kUnresolved = 127;
constexpr std::chrono::microseconds kTrialLook{500};

// This process's environment, with the library among those to be loaded before all others.
std::vector<std::string> EnvironmentWith(const std::string& library) {
  std::vector<std::string> variables;
  std::string preload = std::string(kPreload);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with(kPreload)) {
      preload = std::string(text) + ":";
    } else {
      variables.emplace_back(text);
    }
  }
  variables.push_back(preload + library);
  return variables;
}

// A child process's attributes and files.
class Preparations {
 public:
  Preparations() {
    fine_ = posix_spawn_file_actions_init(&files_) == 0 && posix_spawnattr_init(&attributes_) == 0;
    sigset_t none;
    sigemptyset(&none);
    fine_ = fine_ && posix_spawnattr_setsigmask(&attributes_, &none) == 0 &&
            posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK) == 0;
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      fine_ = fine_ && posix_spawn_file_actions_addopen(&files_, fd, "/dev/null", O_RDWR, 0) == 0;
    }
  }
  ~Preparations() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  Preparations(const Preparations&) = delete;
  Preparations& operator=(const Preparations&) = delete;

  // None: it cannot be started.
  std::optional<pid_t> Start(std::vector<std::string>& environment) const {
    if (!fine_) return std::nullopt;
    std::vector<char*> variables;
    for (auto& variable : environment) variables.push_back(variable.data());
    variables.push_back(nullptr);
    std::string program = kProgram;
    const std::array<char*, 2> arguments = {program.data(), nullptr};
    pid_t pid = -1;
    if (posix_spawn(&pid, kProgram, &files_, &attributes_, arguments.data(), variables.data()) != 0)
      return std::nullopt;
    return pid;
  }

 private:
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
  bool fine_ = false;
};

}  // namespace

std::string WhyLoadingFails(const std::string& library, Deadline deadline) {
  // These characters separate names in LD_PRELOAD.
  if (library.find_first_of(" :") != std::string::npos) return "";
  auto environment = EnvironmentWith(library);
  const auto pid = Preparations().Start(environment);
  if (!pid) return "";
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(*pid, &status, WNOHANG);
    if (ended == *pid) break;
    // The program reaps, or ignores, all its children: nothing can be learnt from this one.
    if (ended < 0 && errno != EINTR) return "";
    if (deadline.Passed()) {
      kill(*pid, SIGKILL);
      waitpid(*pid, &status, 0);
      return "a process that loads it was still loading it when the time for that was over";
    }
    std::this_thread::sleep_for(kTrialLook);
  }
  if (WIFSIGNALED(status)) {
    return fmt::format("it crashes when it is loaded: signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  const int code = WEXITSTATUS(status);
  if (code == 0 || code == kUnresolved) return "";
  return fmt::format("it ends the process that loads it, with status {}", code);
}

}  // namespace tutti::plugin
