// Calls that are about to run: where each runs, and how several run together, in this thread, on streams or on GPUs.
//
// Thread-safety: functions may run in several threads at once.
#pragma once

#include <memory>
#include <vector>

#include "src/calls/handle.h"
#include "src/calls/streams/stream.h"

namespace tutti::calls {

struct RunPlace {
  std::shared_ptr<Stream> stream;  // null: synchronous
  bool on_device = false;
  cuda_transport::CuStream cuda_stream = nullptr;
};

// On the GPU that holds the call's buffers; else on its stream; in the communicator's own thread if the call must not
// block; else here. Throws tuttiInvalidArgument if stream, buffers and communicator do not fit together.
RunPlace PlaceOf(tuttiComm& handle, const plan::Operation& operation, tuttiStream_t stream);

struct Call {
  std::shared_ptr<tuttiComm> handle;
  plan::Operation operation;
  RunPlace place;
};

// Runs the calls of one group: enqueues those of GPUs, puts those of streams there, and waits for those without, which run
// together with the others. Returns the code of the first failure, which this thread remembers; tuttiInProgress if a
// non-blocking communicator took one. Throws tuttiInvalidArgument if a stream takes no more tasks, and tuttiSystemError if
// too many calls wait.
tuttiResult_t Run(const std::vector<Call>& calls);
// The same for one call that runs here, without the copies and allocations of a group. REQUIRES: the caller is Operating;
// no call waits on the communicator; the call is not one-sided.
tuttiResult_t RunHere(tuttiComm& handle, const plan::Operation& operation);

}  // namespace tutti::calls
