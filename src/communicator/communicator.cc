#include "src/communicator/communicator.h"

#include <sched.h>

#include <thread>
#include <utility>

#include "base/clocks/clock.h"

namespace tutti::comm {

Communicator::Communicator(const Meet& meet, Options options, Cancellation cancel)
    : options_(std::move(options)), cancel_(cancel) {
  const auto deadline = InitDeadline();
  control_plane_ = meet(options_.settings, deadline);
  // From here on this rank can tell the others why it fails.
  try {
    SetUp(deadline);
  } catch (...) {
    control_plane_->Refuse(RefusalOf(CurrentFailure(), "while the communicator was made"));
    throw;
  }
}

Communicator::Meet Communicator::At(const bootstrap::JoinTicket& ticket, int nranks, int rank, Cancellation cancel) {
  return [=](const Settings& settings, Deadline deadline) {
    return bootstrap::ControlPlane::Join(ticket, nranks, rank, settings, deadline, cancel);
  };
}

void Communicator::AwaitDevice() const {
  constexpr std::chrono::milliseconds kLookEvery{50};
  while (device_ != nullptr && !failed() && !device_->AwaitIdle(kLookEvery)) {
  }
}

void Communicator::AwaitDeviceFault() const {
  constexpr std::chrono::milliseconds kLookEvery{1}, kPromised{1000};  // docs/faults.md
  if (device_ == nullptr) return;
  const auto deadline = Deadline::After(kPromised);
  for (Lookout lookout; device_->failure_detector().Faulted() && !failed() && !deadline.Passed(); lookout.Look()) {
    std::this_thread::sleep_for(kLookEvery);
  }
}

Communicator::~Communicator() {
  if (device_ != nullptr && failed()) device_->Release();
  host_->Leave();
}

AllGather Communicator::MakeAllGather(Cancellation cancel) {
  return [this, cancel](std::span<const std::byte> mine) {
    return control_plane_->AllGather(mine, InitDeadline(), cancel);
  };
}

void Communicator::LockSlowly() {
  while (busy_.exchange(true, std::memory_order_acquire)) sched_yield();
}

Error Communicator::Fail(const Error& failure) {
  const bool first = !failed();
  const Error kept = host_->failure_detector().Fail(failure);
  if (first) DumpRecorder();
  return kept;
}

void Communicator::Stop(std::string_view what) {
  cancelled_.store(true, std::memory_order_release);
  auto& failure_detector = host_->failure_detector();
  const Error stopped(tuttiRemoteError, fmt::format("{} {} the communicator", failure_detector.Who(rank()), what));
  failure_detector.Stop(stopped);
  if (device_ != nullptr) device_->failure_detector().Stop(stopped);
}

void Communicator::Abort() {
  aborted_.store(true, std::memory_order_release);
  Stop("aborted");
}

}  // namespace tutti::comm
