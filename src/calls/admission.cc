#include "src/calls/admission.h"

namespace tutti::calls {

std::unique_ptr<Turn> TakeTurn(const std::shared_ptr<tuttiComm>& handle, TurnKind kind) {
  return std::make_unique<Turn>(std::shared_ptr<Turns>(handle, &handle->turns), kind);
}

std::unique_ptr<Admission> Admission::ForOperation(std::shared_ptr<tuttiComm> handle) {
  std::unique_ptr<Admission> admission(new Admission(std::move(handle)));
  calls::Enter(admission->handle_.get());
  admission->inside_ = true;
  return admission;
}

std::unique_ptr<Admission> Admission::ForJoin(std::shared_ptr<tuttiComm> handle) {
  std::unique_ptr<Admission> admission(new Admission(std::move(handle)));
  if (!admission->handle_->life.EnterJoin().admitted) ThrowGone();
  admission->inside_ = true;
  return admission;
}

void Admission::WaitOutside() {
  if (!handle_->life.AddPending()) {
    Throw(tuttiSystemError, "more than {} calls wait on streams for comm", LifeState::kMostPending);
  }
  pending_ = true;
  inside_ = false;
  handle_->life.LeaveOperation();
}

Admission::State Admission::Ask() {
  if (turn_ == nullptr || turn_->HasCome() || dead()) return Enter();
  return aborting() ? State::gone : State::waits;
}

Admission::State Admission::Await() {
  const bool came = turn_ == nullptr || turn_->Await([this] { return aborting() || dead(); });
  return came || !aborting() ? Enter() : State::gone;
}

Admission::State Admission::Enter() {
  if (!inside_ && !handle_->life.EnterPending().admitted) return State::gone;
  inside_ = true;
  return State::inside;
}

void Admission::Leave() {
  if (std::exchange(inside_, false)) handle_->life.LeaveOperation();
  if (std::exchange(pending_, false)) handle_->life.EndPending();
  turn_ = nullptr;
}

}  // namespace tutti::calls
