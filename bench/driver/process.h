// A child process that is never left behind: it leads its own process group, which the destructor ends and reaps, and
// the kernel ends it if the bench dies first.
//
// Thread-safety: one thread. Start from the longest-lived thread, because the kernel watches that thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/worker/control_socket.h"

namespace tutti::bench {

using Environment = std::vector<std::pair<std::string, std::string>>;

class Process {
 public:
  // Output: shown on our stderr, or kept for LastLines(). Throws std::runtime_error if the process cannot start.
  enum class Output { show, keep };
  Process(const std::vector<std::string>& command, const Environment& additions, Output output);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  pid_t pid() const { return pid_; }
  // Reaps the process if it ends within the time; returns "exited with status 1", "was killed by signal 9 (Killed)".
  std::optional<std::string> Outcome(Milliseconds wait);
  // Terminates, waits, then kills the whole group.
  void End();
  // The last lines of its output, if kept.
  std::string LastLines(int lines) const;

 private:
  pid_t pid_ = -1;
  Descriptor output_;
  std::optional<std::string> outcome_;
};

}  // namespace tutti::bench
