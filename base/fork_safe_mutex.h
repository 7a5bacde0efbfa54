// A mutex for state that the whole process shares. fork() locks it first, so that a child finds neither a locked mutex
// nor half-changed data behind it.
//
// Thread-safety: as std::mutex. REQUIRES: it is not destroyed once it has been locked; a thread that holds one neither
// locks nor makes another one.
#pragma once

#include <mutex>

namespace tutti {

class ForkSafeMutex {
 public:
  // Throws tuttiSystemError.
  ForkSafeMutex();
  ~ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  friend class ForkSafeMutexes;

  std::mutex mutex_;
  ForkSafeMutex* next_ = nullptr;  // in the list of all fork-safe mutexes
};

}  // namespace tutti
