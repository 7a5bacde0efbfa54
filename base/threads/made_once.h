// An object that exists once per process. It is made on first use and never destroyed, because threads may use it while
// the process exits.
//
// A function's static variable would do, but for fork(): the compiler initialises it under a lock of its own, and a
// child that is forked during that time waits for the lock forever. Here, threads that come at the same time make one
// object each, and the first one counts. A child that is forked during that time makes its own.
//
// Thread-safety: all members, from any thread. REQUIRES: constant-initialised (static constinit); an unused T may go.
#pragma once

#include <atomic>
#include <memory>

namespace tutti {

template <typename T>
class MadeOnce {
 public:
  constexpr MadeOnce() = default;
  MadeOnce(const MadeOnce&) = delete;
  MadeOnce& operator=(const MadeOnce&) = delete;

  T& Get() {
    return Get([] { return std::make_unique<T>(); });
  }
  // `make` returns a std::unique_ptr<T>. If it throws, nothing is made, and the next caller tries again.
  template <typename Make>
  T& Get(Make&& make) {
    // Acquire and release: a thread that finds the pointer finds the object behind it.
    T* made = made_.load(std::memory_order_acquire);
    if (made != nullptr) [[likely]]
      return *made;
    std::unique_ptr<T> fresh = make();
    const bool first =
        made_.compare_exchange_strong(made, fresh.get(), std::memory_order_acq_rel, std::memory_order_acquire);
    return first ? *fresh.release() : *made;
  }

 private:
  std::atomic<T*> made_{nullptr};
};

}  // namespace tutti
