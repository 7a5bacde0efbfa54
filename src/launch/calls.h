// Calls that are about to run: where each runs, and how several run together, in this thread or on streams.
//
// Thread-safety: functions may run in several threads at once.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "src/launch/entries.h"
#include "src/launch/launcher.h"

namespace tutti::launch {

struct RunPlace {
  std::shared_ptr<Stream> stream;  // null: synchronous
  bool on_device = false;
  cuda_transport::CuStream cuda_stream = nullptr;
};

struct Call {
  std::shared_ptr<tuttiComm> handle;
  plan::Operation operation;
  RunPlace place;
};

// Returns the code of the failure, if any, which `handle` and this thread remember.
tuttiResult_t Conclude(tuttiComm& handle, const std::optional<Error>& failure);

// Runs the calls in this thread, whatever their places say. REQUIRES: all calls' handles are entered, and have their
// turns. Each handle is left as soon as its own part is over.
tuttiResult_t RunCalls(const std::vector<Call>& calls, Entries& entries, host::WhoWaits who);

// Puts the calls on their streams. Waits for calls without a stream, which run together with the others. REQUIRES: all
// calls' handles are entered.
tuttiResult_t Queue(std::vector<Call> calls, Entries& entries);

}  // namespace tutti::launch
