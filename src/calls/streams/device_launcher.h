// Enqueues calls on GPUs: one, or a group's worth on any number of communicators.
//
// Thread-safety: as launcher.h.
#pragma once

#include <span>

#include "src/calls/calls.h"

namespace tutti::calls {

// Returns when all calls are enqueued on their streams; where several ranks share a process and a GPU, that is when all
// of those ranks have come. Returns the code of the failure, if any, which the first call's handle and this thread
// remember. A communicator that could not enqueue is dead, unless the call itself was invalid. REQUIRES: the calls' handles
// are entered, and each has a device.
tuttiResult_t EnqueueAll(std::span<const Call> calls);

}  // namespace tutti::calls
