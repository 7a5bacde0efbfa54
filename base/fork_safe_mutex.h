// A mutex for what the whole process shares: fork() takes it first, so that a child finds neither a locked mutex nor
// half-changed data behind it.
//
// Thread-safety: as std::mutex. REQUIRES: it is not destroyed once it was locked, and a thread that holds one locks no
// other one and makes none.
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
  ForkSafeMutex* next_ = nullptr;  // of all that there are
};

}  // namespace tutti
