#include "base/fork_safe_mutex.h"

#include <pthread.h>

#include <type_traits>
#include <utility>

#include "base/error.h"

namespace tutti {

// All fork-safe mutexes. Constant-initialised and never destroyed, because the process may fork from its first moment
// to its last.
class ForkSafeMutexes {
 public:
  void Add(ForkSafeMutex& one) {
    const std::lock_guard lock(mutex_);
    one.next_ = std::exchange(first_, &one);
  }
  void Remove(ForkSafeMutex& one) {
    const std::lock_guard lock(mutex_);
    auto** place = &first_;
    while (*place != &one) place = &(*place)->next_;
    *place = one.next_;
  }
  void LockAll() {
    mutex_.lock();
    for (auto* each = first_; each != nullptr; each = each->next_) each->lock();
  }
  void UnlockAll() {
    for (auto* each = first_; each != nullptr; each = each->next_) each->unlock();
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  ForkSafeMutex* first_ = nullptr;
};

namespace {

constinit ForkSafeMutexes all;
static_assert(std::is_trivially_destructible_v<ForkSafeMutexes>);

// Registered while the library is loaded, before a thread can have locked a mutex.
const int why_not_prepared = pthread_atfork([] { all.LockAll(); }, [] { all.UnlockAll(); }, [] { all.UnlockAll(); });

}  // namespace

ForkSafeMutex::ForkSafeMutex() {
  if (why_not_prepared != 0) ThrowSystem("cannot prepare for fork()", why_not_prepared);
  all.Add(*this);
}

ForkSafeMutex::~ForkSafeMutex() { all.Remove(*this); }

}  // namespace tutti
