// A progress line on a terminal; prints nothing elsewhere.
//
// Thread-safety: one thread; the functions are pure.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace tutti::report {

class Progress {
 public:
  // The time left is told if steps are alike: each takes about as long.
  enum class Steps { alike, unlike };

  explicit Progress(int steps, Steps kind = Steps::alike);
  Progress() : Progress(0) {}  // the number of steps is not known
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Starts the next step, described by `what`.
  void Step(std::string_view what) { Step(done_ + 1, what); }
  // As many steps are done.
  void Step(int done, std::string_view what);
  // Call before printing anything else.
  void Clear();
  int done() const { return done_; }

 private:
  const int steps_;
  const Steps kind_;
  const bool on_terminal_;
  int done_ = -1;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point shown_ = {};
};

// "[3/28, 12 s left] 64K", or "[3] 64K" if the number of steps is not known; a single step has no numbers. Cut so that
// it leaves a column free. `left`: such as FormatDuration's, or empty.
std::string ProgressLine(int done, int steps, std::string_view left, std::string_view what, std::size_t columns);

// "12 s", "3 min 20 s", "1 h 5 min".
std::string FormatDuration(double seconds);

}  // namespace tutti::report
