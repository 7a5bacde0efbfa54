// A communicator's GPU memory: how much there is, and giving a part of it back for a time.
#include "base/all_gather.h"
#include "src/device/device_side.h"

namespace tutti::device {

std::size_t DeviceSide::persistent_bytes() const {
  return fabric_->other_bytes() + arena_->bytes() + windows_->bytes() + signals_->bytes() + state_.bytes() +
         barrier_.bytes();
}

std::string DeviceSide::Suspend(const AllGather& all_gather) {
  all_gather({});  // other ranks' kernels use this rank's memory
  // If a rank dies on the way, this rank's memory may be gone already.
  suspended_.store(true, std::memory_order_release);
  auto why = fabric_->GiveBack(all_gather);
  if (!why.empty()) suspended_.store(false, std::memory_order_release);
  return why;
}

std::string DeviceSide::Resume(const AllGather& all_gather, Deadline deadline) {
  auto why = fabric_->TakeAgain(all_gather, deadline);
  suspended_.store(!why.empty(), std::memory_order_release);
  return why;
}

}  // namespace tutti::device
