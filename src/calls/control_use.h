// The exclusive use of a communicator by a control call, in the call's turn: the calls made before are over, wherever
// they were made, and those made later wait.
//
// Thread-safety: each object is used by one thread.
#pragma once

#include <atomic>
#include <memory>

#include "src/calls/admission.h"

namespace tutti::calls {

class ControlUse {
 public:
  // Waits for the turn, and then until no other call runs. No call begins on a failed communicator, so a control call
  // waits for none there. Throws if the communicator, or the one being made with `cancel`, is aborted before that.
  // REQUIRES: the caller is Operating until this is destroyed.
  ControlUse(tuttiComm& handle, std::shared_ptr<Turn> turn, const std::atomic<bool>* cancel);
  // Takes a turn now.
  explicit ControlUse(tuttiComm& handle) : ControlUse(handle, TakeTurnNow(handle), nullptr) {}
  ~ControlUse();
  ControlUse(const ControlUse&) = delete;
  ControlUse& operator=(const ControlUse&) = delete;

 private:
  static std::shared_ptr<Turn> TakeTurnNow(tuttiComm& handle);

  comm::Communicator& communicator_;
  const std::shared_ptr<Turn> turn_;
};

}  // namespace tutti::calls
