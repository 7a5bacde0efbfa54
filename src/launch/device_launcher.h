// Enqueues calls on GPUs: one, or a group's worth on any number of communicators.
//
// Thread-safety: as launcher.h.
#pragma once

#include <optional>
#include <span>

#include "base/error.h"
#include "src/communicator/communicator.h"

namespace tutti::launch {

struct DeviceLaunched {
  comm::Communicator* communicator;
  const plan::Operation* operation;
  cuda_transport::CuStream stream;
};

// Returns when all calls are enqueued on their streams; where several ranks share a process and a GPU, that is when all
// of those ranks have come. Returns the failure, if any; never throws. A communicator that could not enqueue is dead,
// unless the call itself was invalid. REQUIRES: the communicators are locked, and each has a device.
std::optional<Error> EnqueueAll(std::span<const DeviceLaunched> group);

}  // namespace tutti::launch
