#include "base/report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace tutti::report {
namespace {

constexpr std::chrono::milliseconds kPause(100);
constexpr std::string_view kEmptyLine = "\r\x1b[K";

// A terminal may change its size, or not tell it.
std::size_t Columns() {
  constexpr std::size_t kOtherwise = 80;
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kOtherwise;
}

}  // namespace

Progress::Progress(int steps, Steps kind) : steps_(steps), kind_(kind), on_terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::Step(int done, std::string_view what) {
  done_ = done;
  const auto now = std::chrono::steady_clock::now();
  const bool alike = steps_ > 0 && kind_ == Steps::alike;
  // Steps that are alike may be thousands, faster than anyone reads.
  if (!on_terminal_ || (alike && now < shown_ + kPause)) return;
  shown_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  std::string left;
  if (done_ > 0 && alike) left = FormatDuration(elapsed / done_ * (steps_ - done_));
  fmt::print(stderr, "{}{}", kEmptyLine, ProgressLine(done_, steps_, left, what, Columns()));
  std::fflush(stderr);
}

void Progress::Clear() {
  if (!on_terminal_) return;
  fmt::print(stderr, kEmptyLine);
  std::fflush(stderr);
}

std::string ProgressLine(int done, int steps, std::string_view left, std::string_view what, std::size_t columns) {
  std::string line;
  if (steps != 1) line = fmt::format("[{}", steps > 1 ? std::min(done + 1, steps) : done + 1);
  if (steps > 1) line += fmt::format("/{}", steps);
  if (!left.empty()) line += fmt::format(", {} left", left);
  if (steps != 1) line += "] ";
  return line.append(what).substr(0, columns - 1);
}

std::string FormatDuration(double seconds) {
  constexpr int kMinute = 60;
  constexpr int kHour = 3600;
  const auto whole = static_cast<long long>(seconds + 0.5);
  if (whole < kMinute) return fmt::format("{} s", whole);
  if (whole < kHour) return fmt::format("{} min {} s", whole / kMinute, whole % kMinute);
  return fmt::format("{} h {} min", whole / kHour, whole % kHour / kMinute);
}

}  // namespace tutti::report
