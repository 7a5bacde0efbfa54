// A communicator whose GPU memory is given back for a time.
#include "src/communicator/communicator.h"
#include "src/communicator/control_call.h"

namespace tutti::comm {

void Communicator::RequireResumed() const {
  if (suspended()) Throw(tuttiInvalidUsage, "comm is suspended: call tuttiCommResume on all ranks first");
}

void Communicator::Suspend() {
  if (device_ == nullptr) return;
  if (suspended()) Throw(tuttiInvalidUsage, "comm is suspended already");
  // The failure of a rank is every rank's, so none has to be told, and the communicator goes on.
  const auto why = InControlCall(ControlCall::suspend, [&] {
    RequireSameCalls(ControlCall::suspend, MakeAllGather());
    AwaitDevice();
    if (failed()) throw *failure();
    return device_->Suspend(MakeAllGather());
  });
  if (!why.empty()) Throw(tuttiUnhandledCudaError, "comm cannot be suspended: {}", why);
  host_->operations().ForgetPlans();  // no call is repeated unchecked
}

void Communicator::Resume() {
  if (device_ == nullptr) return;
  if (!suspended()) Throw(tuttiInvalidUsage, "comm is not suspended");
  const auto why = InControlCall(ControlCall::resume, [&] {
    RequireSameCalls(ControlCall::resume, MakeAllGather());
    return device_->Resume(MakeAllGather(), InitDeadline());
  });
  if (!why.empty()) Throw(tuttiUnhandledCudaError, "comm stays suspended: {}", why);
}

std::uint64_t Communicator::MemoryStat(tuttiCommMemStat_t stat) const {
  const std::uint64_t returnable = device_ != nullptr ? device_->suspendable_bytes() : 0;
  const std::uint64_t rest = device_ != nullptr ? device_->persistent_bytes() : 0;
  switch (stat) {
    case tuttiStatGpuMemSuspend: return returnable;
    case tuttiStatGpuMemSuspended: return suspended() ? 1 : 0;
    case tuttiStatGpuMemPersist: return rest;
    case tuttiStatGpuMemTotal: return rest + (suspended() ? 0 : returnable);
  }
  Throw(tuttiInvalidArgument, "stat is {}; it takes {} to {}", static_cast<int>(stat),
        static_cast<int>(tuttiStatGpuMemSuspend), static_cast<int>(tuttiStatGpuMemTotal));
}

}  // namespace tutti::comm
