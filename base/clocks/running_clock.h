// The clock from which one rank concludes anything about another: it stands still while this process does - stopped by a
// signal or a debugger, suspended by a batch system, paused with its machine. The other rank may have stood still with it,
// and what it sent meanwhile has not been looked at.
//
// Nothing tells a process that it stood still, but a thread that waits finds out. It looks at the clock at least every
// kMostCounted, and when its wait or a deadline begins (Lookout). If no thread of the process has looked for longer than
// that, the rest of that time does not count, for any thread. So time in which the process only computes does not count
// either. The clock goes on by kMostCounted all the same, so every wait ends, even on a machine that is always late.
//
// Thread-safety: all members, from any thread; a Lookout belongs to one wait of one thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace tutti {

class RunningClock {
 public:
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<RunningClock>;
  static constexpr bool is_steady = true;

  static time_point now() { return Now(stood_still_.load(std::memory_order_relaxed)); }

 private:
  friend class Lookout;

  static time_point Now(rep stood_still) {
    return time_point(std::chrono::steady_clock::now().time_since_epoch() - duration(stood_still));
  }

  // Relaxed: times order nothing else.
  static inline std::atomic<rep> stood_still_{0};
  static inline std::atomic<rep> latest_look_{0};  // of any thread, on this clock
};

class Lookout {
 public:
  // The longest time between two looks that counts: twice as long as any wait sleeps.
  static constexpr std::chrono::milliseconds kMostCounted{100};
  static constexpr std::chrono::milliseconds kLongestSleep = kMostCounted / 2;

  // Called at least every kLongestSleep of the wait. Returns the time.
  RunningClock::time_point Look() {
    auto& stood_still = RunningClock::stood_still_;
    auto& latest = RunningClock::latest_look_;
    const auto seen = RunningClock::time_point(RunningClock::duration(latest.load(std::memory_order_relaxed)));
    auto lost = stood_still.load(std::memory_order_relaxed);
    auto now = RunningClock::Now(lost);
    const auto before = std::max(last_, seen);
    const auto limit = (before == RunningClock::time_point{} ? now : before) + kMostCounted;
    // Another thread may find the same standstill: it counts once.
    while (now > limit) {
      if (stood_still.compare_exchange_weak(lost, lost + (now - limit).count(), std::memory_order_relaxed)) {
        now = limit;
      } else {
        now = RunningClock::Now(lost);
      }
    }
    last_ = std::max(last_, now);
    // Seldom, because all threads read it.
    if (last_ - seen > kMostCounted / 10) latest.store(last_.time_since_epoch().count(), std::memory_order_relaxed);
    return last_;
  }

 private:
  RunningClock::time_point last_;  // none yet: then the latest look of any thread counts
};

}  // namespace tutti
