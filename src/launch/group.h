// Between GroupStart and GroupEnd a thread's calls are collected; at the outermost End they run together. Outside a
// group a call is a group of one. Also where calls meet streams.
//
// Thread-safety: the group belongs to the calling thread.
#pragma once

#include <functional>

#include "src/launch/handle.h"
#include "src/launch/launcher.h"
#include "src/launch/stream.h"

namespace tutti {

void StartGroup();
// Throws tuttiInvalidUsage without a start. Runs what was collected if this was the outermost one; the result is that
// of the first call that failed.
tuttiResult_t EndGroup();

// Forgets what the open groups of this thread have collected since `mark`, and closes those opened since.
struct GroupMark {
  int depth;
  std::size_t calls, joins;
};
GroupMark MarkGroup();
void AbandonGroup(const GroupMark& mark);

// Runs the operation, or queues it on the stream, or collects it. `stream` may be null. Throws tuttiInvalidArgument if
// `stream` is no stream of this library's. Returns tuttiInProgress if a non-blocking communicator took it. REQUIRES:
// the caller is Operating.
tuttiResult_t Submit(tuttiComm& handle, const Operation& operation, tuttiStream_t stream);

// Joins a communicator, or takes part in a join for other ranks' sake.
struct Join {
  std::shared_ptr<tuttiComm> runner;                // blocking: here; else in its background
  std::vector<std::shared_ptr<tuttiComm>> waiting;  // Finalize and Destroy of these wait for it once it is queued
  // `pending`: whether the handles in `waiting` count it as pending.
  std::function<tuttiResult_t(bool pending)> body;
  std::function<void(const Error&)> fail;  // in place of the body, where that cannot begin
};
// Like Submit. The joins of one group run side by side.
tuttiResult_t SubmitJoin(Join join);

}  // namespace tutti
