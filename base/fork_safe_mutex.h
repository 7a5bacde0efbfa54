// A mutex for state that the whole process shares. fork() locks it first, so that a child finds neither a locked mutex
// nor half-changed data behind it.
//
// Thread-safety: as std::mutex. REQUIRES: it is not destroyed once it has been locked; a thread that holds one neither
// locks nor makes another one.
#pragma once

#include <mutex>

#include "base/threads/pause.h"

namespace tutti {

class ForkSafeMutex {
 public:
  // Throws tuttiSystemError.
  ForkSafeMutex();
  ~ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;

  // A thread holds it for a few look-ups, so a waiting thread pauses: a sleep and a wake-up would take much longer. Ranks
  // that are threads of one process lock it in every call.
  void lock() {
    constexpr int kPauses = 100;
    for (int i = 0; i < kPauses; ++i) {
      if (mutex_.try_lock()) return;
      Pause();
    }
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }

 private:
  friend class ForkSafeMutexes;

  std::mutex mutex_;
  ForkSafeMutex* next_ = nullptr;  // in the list of all fork-safe mutexes
};

}  // namespace tutti
