// Enqueues calls on GPUs: one, or a group's worth on any number of communicators.
//
// Thread-safety: as launcher.h.
#pragma once

#include <optional>
#include <span>

#include "base/error.h"
#include "src/communicator/communicator.h"

namespace tutti {

struct DeviceLaunched {
  Communicator* communicator;
  const Operation* operation;
  CuStream stream;
};

// Returns when all are enqueued on their streams - which, where several ranks share a process and a GPU, is when all of
// those have come. What went wrong, if anything; never throws. A communicator that could not enqueue is dead, unless
// its call was refused for what it is. REQUIRES: the communicators are locked, and each has a device.
std::optional<Error> EnqueueAll(std::span<const DeviceLaunched> group);

}  // namespace tutti
