// The C boundary of the calls that end or query a communicator.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "algorithms/builders/records.h"
#include "base/numbers/datatype.h"
#include "base/threads/patience.h"
#include "src/calls/handle.h"

namespace tutti::api {
namespace {

constexpr std::string_view kFinalize = "finalize", kDestroy = "destroy";

// Admits no further operations and waits until those that have begun are done, on all streams. Returns an error if
// ranks made different calls and no rank has had to wait for another since. Tells ranks that wait for this one in a
// control call that it made `call`.
std::optional<Error> Finalise(tuttiComm* comm, std::string_view call) {
  const calls::Asking asking(comm);
  auto& handle = asking.handle();
  handle.life.Finalise();
  Patience patience;
  for (;;) {
    const auto state = handle.life.Look();
    if (state.aborting()) calls::ThrowGone();
    if (state.idle()) break;
    patience.Pause();
  }
  if (handle.communicator != nullptr) handle.communicator->AwaitDevice();
  if (handle.life.Look().aborting()) calls::ThrowGone();
  if (handle.communicator == nullptr) return std::nullopt;
  // Destroy destroys all the same, so it does not wait.
  auto disagreement = handle.communicator->LastAudit(call == kFinalize);
  handle.communicator->RefuseControlCalls(call);
  return disagreement;
}

// Likewise, in the background of a non-blocking communicator, behind everything queued there.
tuttiResult_t FinaliseInBackground(const std::shared_ptr<tuttiComm>& handle) {
  const calls::Asking asking(handle.get());
  handle->life.Finalise();
  handle->finalizing.store(true, std::memory_order_relaxed);
  handle->background->Enqueue([handle] {
    const auto result = calls::Guard(handle.get(), [&] {
      if (const auto disagreement = Finalise(handle.get(), kFinalize)) throw *disagreement;
    });
    {
      const std::lock_guard lock(handle->mutex);
      handle->background_failure = result;
    }
    handle->finalizing.store(false, std::memory_order_release);
    return result;
  });
  return tuttiInProgress;
}

// Stops running operations if the communicator exists and is not being freed.
void Stop(tuttiComm& handle) {
  const auto entry = handle.life.EnterAbort();
  if (!entry.admitted) return;
  // `cancel`, or the thread that makes it, stops a communicator that is being made: see MakeIn.
  if (entry.state.joined() && handle.communicator != nullptr) handle.communicator->Abort();
  handle.life.LeaveQuestion();
}

}  // namespace
}  // namespace tutti::api

using namespace tutti;       // NOLINT: this file is the C boundary of these namespaces
using namespace tutti::api;  // NOLINT

tuttiResult_t tuttiGetVersion(int* version) {
  return calls::Guard(nullptr, [&] {
    calls::CheckOutput("version", version);
    *version = TUTTI_VERSION_CODE;
  });
}

const char* tuttiGetErrorString(tuttiResult_t result) { return ResultPhrase(result); }

const char* tuttiGetLastError(tuttiComm_t comm) { return calls::LastError(comm); }

tuttiResult_t tuttiCommRevoke(tuttiComm_t comm, int revokeFlags) {
  return calls::Guard(comm, [&] {
    const calls::Operating operating(comm);
    if (revokeFlags != TUTTI_REVOKE_DEFAULT) {
      Throw(tuttiInvalidArgument, "revokeFlags is {:#x}; only TUTTI_REVOKE_DEFAULT exists", revokeFlags);
    }
    calls::Made(operating.handle()).Revoke();
  });
}

tuttiResult_t tuttiCommFinalize(tuttiComm_t comm) {
  return calls::GuardResult(comm, [&] {
    auto& handle = calls::Checked(comm);
    if (!handle.blocking) return FinaliseInBackground(handle.shared_from_this());
    if (const auto disagreement = Finalise(comm, kFinalize)) throw *disagreement;
    return tuttiSuccess;
  });
}

tuttiResult_t tuttiCommDestroy(tuttiComm_t comm) {
  return calls::Guard(comm, [&] {
    const auto handle = calls::Checked(comm).shared_from_this();  // keeps the handle, whichever call frees it
    const auto disagreement = Finalise(comm, kDestroy);
    if (!handle->life.Claim(false)) calls::ThrowGone();
    calls::Free(*handle);
    if (disagreement) throw *disagreement;
  });
}

tuttiResult_t tuttiCommAbort(tuttiComm_t comm) {
  return calls::Guard(comm, [&] {
    const auto handle = calls::Checked(comm).shared_from_this();
    handle->cancel.store(true, std::memory_order_relaxed);
    const bool mine = handle->life.Claim(true);
    Stop(*handle);
    if (mine) {
      calls::Free(*handle);
      return;
    }
    // Another call frees the communicator; nothing it still waits for can block forever.
    Patience patience;
    while (!handle->life.Look().retired()) patience.Pause();
  });
}

tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* asyncError) {
  return calls::Guard(comm, [&] {
    const calls::Asking asking(comm);
    auto& handle = asking.handle();
    calls::CheckOutput("asyncError", asyncError);
    const auto state = handle.life.Look();
    const bool there = state.joined() && handle.communicator != nullptr;
    if (there) handle.communicator->AwaitDeviceFault();
    if (there && handle.communicator->failed()) {
      const auto failure = *handle.communicator->failure();
      *asyncError = failure.code();
      const std::lock_guard lock(handle.mutex);
      // The thread that ran the call may be about to write the same text.
      handle.last_error = failure.what();
      return;
    }
    const bool busy = !handle.blocking && (state.pending() > 0 || handle.finalizing.load(std::memory_order_acquire));
    const std::lock_guard lock(handle.mutex);
    *asyncError = !state.joined() || busy                     ? tuttiInProgress
                  : handle.background_failure != tuttiSuccess ? handle.background_failure
                                                              : std::exchange(handle.call_failure, tuttiSuccess);
  });
}

tuttiResult_t tuttiCommCount(const tuttiComm_t comm, int* count) {
  return calls::Guard(comm, [&] {
    const calls::Asking asking(comm);
    calls::CheckOutput("count", count);
    const int nranks = asking.handle().nranks.load(std::memory_order_relaxed);
    *count = nranks > 0 ? nranks : calls::Made(asking.handle()).size();
  });
}

tuttiResult_t tuttiCommUserRank(const tuttiComm_t comm, int* rank) {
  return calls::Guard(comm, [&] {
    const calls::Asking asking(comm);
    calls::CheckOutput("rank", rank);
    const int known = asking.handle().rank.load(std::memory_order_relaxed);
    *rank = known >= 0 ? known : calls::Made(asking.handle()).rank();
  });
}

tuttiResult_t tuttiCommHosts(const tuttiComm_t comm, int* hosts) {
  return calls::Guard(comm, [&] {
    const calls::Asking asking(comm);
    calls::CheckOutput("hosts", hosts);
    const auto& host_of = calls::Made(asking.handle()).host().hosts().host_of;
    std::vector<int> first_seen;  // the library's numbers, in the order of ranks
    for (std::size_t r = 0; r < host_of.size(); ++r) {
      const auto found = std::ranges::find(first_seen, host_of[r]);
      hosts[r] = static_cast<int>(found - first_seen.begin());
      if (found == first_seen.end()) first_seen.push_back(host_of[r]);
    }
  });
}

tuttiResult_t tuttiCommCuDevice(const tuttiComm_t comm, int* device) {
  return calls::Guard(comm, [&] {
    const calls::Asking asking(comm);
    calls::CheckOutput("device", device);
    const auto* const side = calls::Made(asking.handle()).device();
    *device = side == nullptr ? TUTTI_DEVICE_NONE : side->device().ordinal();
  });
}

tuttiResult_t tuttiCommGetCounters(tuttiComm_t comm, tuttiCounters_t* counters) {
  return calls::Guard(comm, [&] {
    const calls::Asking asking(comm);
    auto& communicator = calls::Made(asking.handle());
    calls::CheckOutput("counters", counters);
    if (counters->size < sizeof(size_t)) {
      Throw(tuttiInvalidArgument, "counters->size is {}; set it to sizeof(tuttiCounters_t)", counters->size);
    }
    const std::lock_guard lock(communicator);
    communicator.ReadCounters(*counters);
  });
}

tuttiResult_t tuttiCommOnWait(tuttiComm_t comm, void (*waiting)(void* context), void* context) {
  return calls::Guard(comm, [&] {
    const calls::Asking asking(comm);
    auto& communicator = calls::Made(asking.handle());
    const std::lock_guard lock(communicator);
    communicator.host().Meanwhile({waiting, context});
  });
}

tuttiResult_t tuttiCommDescribeLastOperation(tuttiComm_t comm, char* text, size_t size) {
  return calls::Guard(comm, [&] {
    const calls::Asking asking(comm);
    auto& communicator = calls::Made(asking.handle());
    calls::CheckOutput("text", text);
    if (size == 0) Throw(tuttiInvalidArgument, "size is 0");
    const auto description = [&] {
      const std::lock_guard lock(communicator);
      return communicator.DescribeLast();
    }();
    const auto length = std::min(size - 1, description.size());
    std::memcpy(text, description.data(), length);
    text[length] = '\0';
  });
}

tuttiResult_t tuttiCommDump(tuttiComm_t comm, const char* path) {
  return calls::Guard(comm, [&] {
    const calls::Asking asking(comm);
    const auto& communicator = calls::Made(asking.handle());
    calls::CheckOutput("path", path);
    communicator.WriteDump(path);
  });
}

const char* tuttiAlgorithmName(tuttiAlgorithm_t algorithm) { return builders::NameOf(algorithm).data(); }

tuttiResult_t tuttiCommGetLastAlgorithm(tuttiComm_t comm, tuttiAlgorithm_t* algorithm) {
  return calls::Guard(comm, [&] {
    const calls::Asking asking(comm);
    calls::CheckOutput("algorithm", algorithm);
    *algorithm = calls::Made(asking.handle()).last_algorithm();
  });
}
