#include "src/launch/entries.h"

#include <algorithm>
#include <mutex>

namespace tutti::launch {
namespace {

bool AwaitTurn(const tuttiComm& handle, const Turn& turn) {
  return turn.Await([&] { return handle.life.Look().aborting(); });
}

}  // namespace

std::unique_ptr<Turn> TakeTurn(const std::shared_ptr<tuttiComm>& handle) {
  return std::make_unique<Turn>(std::shared_ptr<Turns>(handle, &handle->turns));
}

void Entries::EnterOperation(const std::shared_ptr<tuttiComm>& handle) {
  if (inside_.contains(handle)) return;
  auto place = inside_.emplace(handle, nullptr).first;
  try {
    Enter(handle.get());
  } catch (...) {
    inside_.erase(place);
    throw;
  }
}

void Entries::EnterJoin(const std::shared_ptr<tuttiComm>& handle) {
  if (inside_.contains(handle)) return;
  auto place = inside_.emplace(handle, nullptr).first;
  if (handle->life.EnterJoin().admitted) return;
  inside_.erase(place);
  ThrowGone();
}

bool Entries::EnterPending(const std::shared_ptr<tuttiComm>& handle) {
  if (inside_.contains(handle)) return true;
  auto place = inside_.emplace(handle, nullptr).first;
  if (handle->life.EnterPending().admitted) return true;
  inside_.erase(place);
  return false;
}

bool Entries::EnterInTurn(const std::shared_ptr<tuttiComm>& handle, PendingHandles& pending) {
  if (inside_.contains(handle)) return true;
  auto turn = std::move(pending.handles_.at(handle));
  if (turn == nullptr || !AwaitTurn(*handle, *turn)) return false;  // null: it was refused before
  if (!EnterPending(handle)) return false;
  inside_.at(handle) = std::move(turn);
  return true;
}

void Entries::AwaitTurns() {
  if (std::ranges::none_of(inside_, [](const auto& each) { return CallsWait(*each.first); })) return;
  {
    const std::lock_guard lock(QueueingOrder());
    for (auto& [handle, turn] : inside_) turn = TakeTurn(handle);
  }
  for (const auto& [handle, turn] : inside_) {
    if (!AwaitTurn(*handle, *turn)) ThrowGone();
  }
}

void Entries::Leave(tuttiComm& handle) {
  const auto found = std::ranges::find_if(inside_, [&](const auto& each) { return each.first.get() == &handle; });
  if (found == inside_.end()) return;
  handle.life.LeaveOperation();
  inside_.erase(found);
}

void Entries::LeaveAll() {
  for (const auto& [handle, turn] : inside_) handle->life.LeaveOperation();
  inside_.clear();
}

void PendingHandles::Add(const std::shared_ptr<tuttiComm>& handle) {
  if (handles_.contains(handle)) return;
  const auto place = handles_.emplace(handle, nullptr).first;
  if (handle->life.AddPending()) return;
  handles_.erase(place);
  Throw(tuttiSystemError, "more than {} calls wait on streams for comm", LifeState::kMostPending);
}

void PendingHandles::TakeTurns() {
  for (auto& [handle, turn] : handles_) turn = TakeTurn(handle);
}

void PendingHandles::End() {
  for (const auto& [handle, turn] : handles_) handle->life.EndPending();
  handles_.clear();
}

}  // namespace tutti::launch
