// The locks of several communicators. Whoever waits for one of them holds none, so two threads with calls on the same
// communicators cannot wait for each other, and no communicator waits for what runs on another.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <algorithm>
#include <set>

#include "base/threads/patience.h"
#include "src/communicator/communicator.h"

namespace tutti::launch {

class LockedTogether {
 public:
  using Members = std::set<comm::Communicator*>;

  // Waits until all are free, or `stop` returns true.
  template <typename Stop>
  LockedTogether(Members members, Stop&& stop) : members_(std::move(members)) {
    Patience patience;
    while (!(locked_ = TryAll()) && !stop()) patience.Pause();
  }
  ~LockedTogether() {
    if (!locked_) return;
    for (auto* communicator : members_) communicator->unlock();
  }
  LockedTogether(const LockedTogether&) = delete;
  LockedTogether& operator=(const LockedTogether&) = delete;

  // False: `stop` returned true.
  explicit operator bool() const { return locked_; }

 private:
  bool TryAll() const {
    const auto busy = std::ranges::find_if(members_, [](auto* communicator) { return !communicator->try_lock(); });
    if (busy == members_.end()) return true;
    std::for_each(members_.begin(), busy, [](auto* communicator) { communicator->unlock(); });
    return false;
  }

  const Members members_;
  bool locked_ = false;
};

}  // namespace tutti::launch
