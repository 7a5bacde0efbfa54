// Time stamps cheap enough for every operation: the processor's constant-rate counter, or the steady clock where there
// is none. Ticks of one machine are comparable between its processes.
#pragma once

#include <chrono>
#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace tutti {

inline std::int64_t Ticks() {
#if defined(__x86_64__)
  return static_cast<std::int64_t>(__rdtsc());
#elif defined(__aarch64__)
  std::int64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return std::chrono::steady_clock::now().time_since_epoch().count();
#endif
}

}  // namespace tutti
