// Collects a thread's calls between GroupStart and GroupEnd, and runs them together at the outermost End. Outside a
// group a call is a group of one. Also puts calls on streams.
//
// Thread-safety: the group belongs to the calling thread. A child that the thread forks meanwhile has no group.
#pragma once

#include <functional>

#include "src/calls/admission.h"
#include "src/calls/streams/launcher.h"
#include "src/calls/streams/stream.h"
#include "src/memory/device_buffers.h"

namespace tutti::calls {

// How many groups are open in this thread. Every call looks at it, so it needs no constructor, and the static TLS model
// no call.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local int open_groups;

void StartGroup();
// Throws tuttiInvalidUsage without a start. If this was the outermost group, runs the collected calls; returns the
// result of the first call that failed.
tuttiResult_t EndGroup();

// Keeps the first failure of a call in this thread's group: the group's end will run nothing and return it. REQUIRES: a
// group is open; the thread remembers the failure.
void FailGroup(tuttiResult_t failure);
// A GuardResult for a call that a group may collect.
template <typename Body>
tuttiResult_t GuardCall(tuttiComm* handle, Body&& body) noexcept {
  const auto result = GuardResult(handle, body);
  if (open_groups > 0 && result != tuttiSuccess && result != tuttiInProgress) [[unlikely]]
    FailGroup(result);
  return result;
}
// Ends the group like EndGroup, but runs nothing: returns the estimated microseconds (tuttiGroupSimulateEnd). Throws the
// failure of a call in the group; tuttiInvalidUsage without a start.
double SimulateGroup();

// Forgets what the open groups of this thread have collected since `mark`, and closes those opened since.
struct GroupMark {
  int depth;
  std::size_t calls, joins;
};
GroupMark MarkGroup();
void AbandonGroup(const GroupMark& mark);

// Runs the operation, queues it on the stream, or collects it. `stream` may be null. Throws tuttiInvalidArgument if
// `stream` is not a stream of this library. Returns tuttiInProgress if a non-blocking communicator took it. REQUIRES:
// the caller is Operating.
tuttiResult_t Submit(tuttiComm& handle, const plan::Operation& operation, tuttiStream_t stream);
// The same for operations that one call makes, which may run concurrently.
tuttiResult_t SubmitTogether(tuttiComm& handle, std::span<const plan::Operation> operations, tuttiStream_t stream);
// True: calls on host memory and without a stream run in the calling thread, because no GPU's memory can be meant, and
// the communicator blocks.
inline bool RunsInCaller(const tuttiComm& handle) {
  return handle.blocking && handle.communicator != nullptr && handle.communicator->device() == nullptr &&
         !memory::CudaIsInUse();
}

// Joins a communicator, or takes part in a join that other ranks need.
struct Join {
  std::shared_ptr<tuttiComm> runner;                // runs the join: blocking, here; else in its background
  std::shared_ptr<tuttiComm> parent;                // takes a turn among the calls on it; may be null
  std::vector<std::shared_ptr<tuttiComm>> waiting;  // once the join is queued, their Finalize and Destroy wait for it
  // `queued`: those in `waiting` that wait outside for it to run; null: it runs here, and enters them itself. `turn`: on
  // the parent; null without one.
  std::function<tuttiResult_t(const Admissions* queued, std::shared_ptr<Turn> turn)> body;
  std::function<void(const Error&)> fail;  // called instead of `body` if that cannot begin
};
// Like Submit. The joins of one group run concurrently.
tuttiResult_t SubmitJoin(Join join);

}  // namespace tutti::calls
