// Between GroupStart and GroupEnd a thread's calls are collected; at the outermost End they run together. Outside a
// group a call is a group of one. Also where calls meet streams.
//
// Thread-safety: the group belongs to the calling thread.
#pragma once

#include <functional>

#include "src/handle.h"
#include "src/launcher.h"
#include "src/stream.h"

namespace tutti {

void StartGroup();
// Throws tuttiInvalidUsage without a start. Runs what was collected if this was the outermost one; the result is that
// of the first call that failed.
tuttiResult_t EndGroup();

// Runs the operation, or queues it on the stream, or collects it. `stream` may be null. Throws tuttiInvalidArgument for
// a stream that is not ours. Returns tuttiInProgress if a
// non-blocking communicator took it.
tuttiResult_t Submit(tuttiComm* handle, const Operation& operation, tuttiStream_t stream);
// Joining a communicator: like Submit. Joins of one group run side by side.
tuttiResult_t SubmitJoin(tuttiComm* handle, std::function<tuttiResult_t()> join);

}  // namespace tutti
