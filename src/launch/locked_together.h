// The locks of several communicators. All threads take them in one order, so two threads with groups over the same
// communicators cannot wait for each other, whether the groups are for hosts or for GPUs.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <functional>
#include <set>

#include "src/communicator/communicator.h"

namespace tutti::launch {

class LockedTogether {
 public:
  using Members = std::set<comm::Communicator*, std::less<>>;  // by address, which is the locking order

  explicit LockedTogether(Members members) : locked_(std::move(members)) {
    for (auto* communicator : locked_) communicator->lock();
  }
  ~LockedTogether() {
    for (auto* communicator : locked_) communicator->unlock();
  }
  LockedTogether(const LockedTogether&) = delete;
  LockedTogether& operator=(const LockedTogether&) = delete;

  // The communicators that are still locked.
  const Members& members() const { return locked_; }
  void Unlock(comm::Communicator& communicator) {
    locked_.erase(&communicator);
    communicator.unlock();
  }

 private:
  Members locked_;
};

}  // namespace tutti::launch
