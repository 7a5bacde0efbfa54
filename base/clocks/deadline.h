// A moment after which waiting ends.
//
// Thread-safety: value type. Setting the machine's time does not move it; while this process stands still, it moves along
// (running_clock.h).
#pragma once

#include <algorithm>
#include <chrono>
#include <compare>

#include "base/clocks/running_clock.h"

namespace tutti {

class Deadline {
 public:
  using Clock = RunningClock;
  using Milliseconds = std::chrono::milliseconds;

  // Longer waits are as good as endless, and adding them to the clock must not overflow.
  static constexpr Milliseconds kLongest = std::chrono::hours(24 * 365);

  static Deadline Never() { return Deadline(Clock::time_point::max()); }
  static Deadline After(Milliseconds wait) {
    return Deadline(Lookout().Look() + std::clamp(wait, Milliseconds::zero(), kLongest));
  }

  bool Passed() const { return Clock::now() >= at_; }
  // Time left, rounded up to a millisecond so that a wait for it is never cut short; 0 once passed, at most kLongest.
  Milliseconds Left() const {
    const auto now = Clock::now();
    if (at_ <= now) return Milliseconds::zero();
    if (at_ == Clock::time_point::max()) return kLongest;
    return std::min(std::chrono::ceil<Milliseconds>(at_ - now), kLongest);
  }

  friend auto operator<=>(const Deadline&, const Deadline&) = default;

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}

  Clock::time_point at_;
};

}  // namespace tutti
