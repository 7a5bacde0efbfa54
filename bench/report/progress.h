// A progress line on a terminal; prints nothing elsewhere. Thread-safety: one thread.
#pragma once

#include <chrono>
#include <string>

namespace tutti::bench {

class Progress {
 public:
  explicit Progress(int steps);
  ~Progress() { Clear(); }

  // Starts the next step, described by `what`.
  void Step(const std::string& what);
  // Call before printing anything else.
  void Clear();
  int done() const { return done_; }

 private:
  const int steps_;
  const bool on_terminal_;
  int done_ = -1;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// "12 s", "3 min 20 s", "1 h 5 min".
std::string FormatDuration(double seconds);

}  // namespace tutti::bench
