// Sleeping until a word changes (futex(2)), within a process or, in shared memory, between processes.
//
// Thread-safety: functions without state.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

namespace tutti {

// Sleeps while the word is `expected`, until FutexWakeAll() or a signal. False: `limit` has passed. REQUIRES: limit >= 0.
inline bool FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::microseconds limit) {
  constexpr long kMicrosecondsOfASecond = 1'000'000, kNanosecondsOfAMicrosecond = 1'000;
  const timespec time{limit.count() / kMicrosecondsOfASecond,
                      limit.count() % kMicrosecondsOfASecond * kNanosecondsOfAMicrosecond};
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, expected, &time, nullptr, 0) == 0 ||
         errno != ETIMEDOUT;
}

// Wakes all that sleep. REQUIRES: the word has changed, so that none falls asleep afterwards.
inline void FutexWakeAll(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace tutti
