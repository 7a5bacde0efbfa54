// A child process that cannot be left behind: it leads its own process group, which is ended and reaped with the
// object, and the kernel ends it when the bench dies first.
//
// Thread-safety: one thread; start from the thread that lives longest (the kernel watches that thread).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/worker/channel.h"

namespace tutti::bench {

using Environment = std::vector<std::pair<std::string, std::string>>;

class Process {
 public:
  // Output: shown on our stderr, or kept for LastLines(). Throws std::runtime_error if it cannot be started.
  enum class Output { show, keep };
  Process(const std::vector<std::string>& command, const Environment& additions, Output output);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  pid_t pid() const { return pid_; }
  // Reaps if it has ended within the time; then "exited with status 1", "was killed by signal 9 (Killed)".
  std::optional<std::string> Outcome(Milliseconds wait);
  // Asks, waits, then kills the whole group.
  void End();
  // Of what it printed, when kept.
  std::string LastLines(int lines) const;

 private:
  pid_t pid_ = -1;
  Descriptor output_;
  std::optional<std::string> outcome_;
};

}  // namespace tutti::bench
