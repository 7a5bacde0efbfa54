#include "src/launch/entries.h"

#include <algorithm>

namespace tutti::launch {

void Entries::EnterOperation(const std::shared_ptr<tuttiComm>& handle) {
  if (inside_.contains(handle)) return;
  auto place = inside_.insert(handle).first;
  try {
    Enter(handle.get());
  } catch (...) {
    inside_.erase(place);
    throw;
  }
}

void Entries::EnterJoin(const std::shared_ptr<tuttiComm>& handle) {
  if (inside_.contains(handle)) return;
  auto place = inside_.insert(handle).first;
  if (handle->life.EnterJoin().admitted) return;
  inside_.erase(place);
  ThrowGone();
}

bool Entries::EnterPending(const std::shared_ptr<tuttiComm>& handle) {
  if (inside_.contains(handle)) return true;
  auto place = inside_.insert(handle).first;
  if (handle->life.EnterPending().admitted) return true;
  inside_.erase(place);
  return false;
}

void Entries::Leave(tuttiComm& handle) {
  const auto found = std::ranges::find_if(inside_, [&](const auto& each) { return each.get() == &handle; });
  if (found == inside_.end()) return;
  handle.life.LeaveOperation();
  inside_.erase(found);
}

void Entries::LeaveAll() {
  for (const auto& handle : inside_) handle->life.LeaveOperation();
  inside_.clear();
}

void PendingHandles::Add(const std::shared_ptr<tuttiComm>& handle) {
  if (handles_.contains(handle)) return;
  const auto place = handles_.insert(handle).first;
  if (handle->life.AddPending()) return;
  handles_.erase(place);
  Throw(tuttiSystemError, "more than {} calls wait on streams for comm", LifeState::kMostPending);
}

void PendingHandles::End() {
  for (const auto& handle : handles_) handle->life.EndPending();
  handles_.clear();
}

}  // namespace tutti::launch
