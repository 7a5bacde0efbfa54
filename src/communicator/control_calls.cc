// Control calls: how a rank's part of one ends on failure, and how the other ranks learn of it; and those that give back
// a GPU's memory for a time.
#include <mutex>
#include <new>
#include <system_error>

#include "src/communicator/communicator.h"
#include "src/communicator/control_call.h"

namespace tutti::comm {
namespace {

bool IsMismatch(const Error& failure) {
  return failure.code() == tuttiInvalidUsage && std::string_view(failure.what()).starts_with(kMismatch);
}

}  // namespace

std::string_view NameOf(ControlCall call) {
  switch (call) {
    case ControlCall::split: return "split";
    case ControlCall::grow: return "grow";
    case ControlCall::window_register: return "window_register";
    case ControlCall::suspend: return "suspend";
    case ControlCall::resume: return "resume";
  }
  return "another call";
}

Error CurrentFailure() {
  try {
    throw;
  } catch (const Error& failure) {
    return failure;
  } catch (const std::bad_alloc&) {
    return {tuttiSystemError, "out of memory"};
  } catch (const std::system_error& error) {
    return {tuttiSystemError, error.what()};
  } catch (const std::exception& exception) {
    return {tuttiInternalError, exception.what()};
  }
}

// The failure as sent to the other ranks. If it concerns this rank alone, its name is added; if another rank is to
// blame, the message already names that one.
Error Communicator::RefusalOf(const Error& failure, std::string_view where) const {
  if (failure.code() == tuttiRemoteError || failure.code() == tuttiTimeoutError) return failure;
  const auto who = tutti::bootstrap::Describe(rank(), control_plane_->roster()[static_cast<std::size_t>(rank())]);
  return {failure.code(), fmt::format("{} failed {}: {}", who, where, failure.what())};
}

std::string Communicator::Site() {
  return host_->failure_detector().Site(host_->operations().SiteNumber(plan::CurrentSite(nullptr), nullptr));
}

void Communicator::EndControlCall(ControlCall call) {
  const Error failure = CurrentFailure();
  const bool invalid = failure.code() == tuttiInvalidUsage || failure.code() == tuttiInvalidArgument;
  const bool mismatch = IsMismatch(failure);
  if (!control_plane_->dead()) {
    // The exchanges succeeded. All ranks see by themselves that the exchanged values are invalid.
    if (!invalid) control_plane_->Refuse(RefusalOf(failure, call));
    throw failure;
  }
  // The other ranks already have the failure: it comes from one of them, or the failed exchange sent it. Adds this rank
  // and its call to the message, unless the others name them.
  const bool remote = failure.code() == tuttiRemoteError || failure.code() == tuttiTimeoutError;
  if (!mismatch && !remote) throw failure;
  const Error named(failure.code(), fmt::format("{}; {} called {}{}", failure.what(),
                                                host_->failure_detector().Who(rank()), NameOf(call), Site()));
  if (mismatch) throw Fail(named);
  throw named;
}

void Communicator::RefuseControlCalls(std::string_view what) {
  const std::lock_guard lock(*this);
  const auto before = failure();
  // Without the line: nearly always there is no rank to tell it to, and finding it takes a while.
  control_plane_->Refuse(before ? *before
                                : Error(tuttiInvalidUsage, fmt::format("{}{} called {}", kMismatch,
                                                                       host_->failure_detector().Who(rank()), what)));
}

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
