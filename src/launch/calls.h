// Calls that are about to run: where each runs, and how several run together, in this thread or on streams.
//
// Thread-safety: functions may run in several threads at once.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "src/launch/group_run.h"
#include "src/launch/stream.h"

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

// The calls of one group on host memory, as parts, and the streams that they are on.
class GroupOfCalls {
 public:
  // Enters the call's communicator. Throws what Operating throws.
  void Add(const Call& call);
  bool empty() const { return parts_.empty(); }
  // Runs the calls. Puts them on their streams, if there are any; waits for those without a stream, which run together
  // with the others. Returns the code of the first failure, which this thread remembers. Throws
  // tuttiInvalidArgument if a stream takes no more tasks, and tuttiSystemError if too many calls wait.
  static tuttiResult_t Run(GroupOfCalls calls);

 private:
  std::vector<Part> parts_;
  std::vector<std::shared_ptr<Stream>> streams_;  // null: the caller
};

}  // namespace tutti::launch
