#include "src/calls/control_use.h"

#include <mutex>

#include "base/threads/patience.h"
#include "src/calls/streams/shared_task.h"

namespace tutti::calls {

ControlUse::ControlUse(tuttiComm& handle, std::shared_ptr<Turn> turn, const std::atomic<bool>* cancel)
    : communicator_(*handle.communicator), turn_(std::move(turn)) {
  const auto stopped = [&] {
    return handle.life.Look().aborting() || (cancel != nullptr && cancel->load(std::memory_order_relaxed));
  };
  const auto stop = [&] {
    turn_->End();
    if (handle.life.Look().aborting()) ThrowGone();
    Throw(tuttiInvalidUsage, "the communicator was aborted in this process while it was being made");
  };
  if (!turn_->Await([&] { return stopped() || communicator_.failed(); }) && stopped()) stop();
  Patience patience;
  while (!communicator_.try_lock()) {
    if (stopped()) stop();
    patience.Pause();
  }
}

ControlUse::~ControlUse() {
  communicator_.unlock();
  turn_->End();
}

std::shared_ptr<Turn> ControlUse::TakeTurnNow(tuttiComm& handle) {
  const std::lock_guard lock(QueueingOrder());
  return TakeTurn(handle.shared_from_this());
}

}  // namespace tutti::calls
