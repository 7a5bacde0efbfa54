// Runs operations to their end: one, or a group's worth on any number of communicators, all progressing together.
//
// Thread-safety: functions may run in several threads at once on different communicators; each waits for its own.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "src/communicator.h"

namespace tutti {

struct Launched {
  Communicator* communicator;
  Operation operation;
};

// Runs one operation in this thread. Returns what went wrong, if anything; never throws. REQUIRES: the communicator is
// locked.
std::optional<Error> RunOne(Communicator& communicator, const Operation& operation, WhoWaits who);

// Runs all of them in this thread. On one communicator, collectives run in the order given, messages of one pair and
// direction likewise; everything else side by side. Messages to oneself are copied. A communicator that fails takes its
// own operations with it, not the others'. Returns the first failure; never throws.
std::optional<Error> RunAll(std::span<const Launched> group, WhoWaits who);

}  // namespace tutti
