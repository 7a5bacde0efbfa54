// Time stamps cheap enough for every operation: the processor's constant-rate counter, or the steady clock where there
// is none. Ticks of one machine are comparable between its processes.
#pragma once

#include <chrono>
#include <cstdint>

namespace tutti {

inline std::int64_t Ticks() {
#if defined(__x86_64__)
  return static_cast<std::int64_t>(__builtin_ia32_rdtsc());
#elif defined(__aarch64__)
  std::int64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return std::chrono::steady_clock::now().time_since_epoch().count();
#endif
}

// Converts ticks to wall-clock time: microseconds since 1970.
struct TickScale {
  std::int64_t origin_ticks = 0;
  double origin_us = 0;
  double us_per_tick = 0;

  double At(std::int64_t ticks) const {
    // A peer may have written any number: the difference wraps, and does not overflow.
    const auto since = static_cast<std::uint64_t>(ticks) - static_cast<std::uint64_t>(origin_ticks);
    return origin_us + static_cast<double>(static_cast<std::int64_t>(since)) * us_per_tick;
  }
};

// Finds the scale by reading both clocks at construction and on request. The further apart, the better.
class TickCalendar {
 public:
  TickScale Scale() const {
    using Microseconds = std::chrono::duration<double, std::micro>;
    const auto ticks = static_cast<double>(Ticks() - ticks_);
    const double elapsed = Microseconds(std::chrono::system_clock::now() - time_).count();
    return {ticks_, Microseconds(time_.time_since_epoch()).count(), ticks > 0 ? elapsed / ticks : 0};
  }

 private:
  std::int64_t ticks_ = Ticks();
  std::chrono::system_clock::time_point time_ = std::chrono::system_clock::now();
};

}  // namespace tutti
