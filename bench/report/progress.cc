#include "bench/report/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace tutti::bench {

Progress::Progress(int steps) : steps_(steps), on_terminal_(::isatty(STDERR_FILENO) == 1) {}

void Progress::Step(const std::string& what) {
  ++done_;
  if (!on_terminal_) return;
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  std::string left;
  if (done_ > 0) left = fmt::format(", {} left", FormatDuration(elapsed / done_ * (steps_ - done_)));
  fmt::print(stderr, "\r\x1b[K[{}/{}{}] {}", done_ + 1, steps_, left, what);
  std::fflush(stderr);
}

void Progress::Clear() {
  if (!on_terminal_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

std::string FormatDuration(double seconds) {
  constexpr int kMinute = 60;
  constexpr int kHour = 3600;
  const auto whole = static_cast<long long>(seconds + 0.5);
  if (whole < kMinute) return fmt::format("{} s", whole);
  if (whole < kHour) return fmt::format("{} min {} s", whole / kMinute, whole % kMinute);
  return fmt::format("{} h {} min", whole / kHour, whole % kHour / kMinute);
}

}  // namespace tutti::bench
