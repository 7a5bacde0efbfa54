// Runs operations to their end: one, or a group's worth on any number of communicators, all progressing together.
//
// Thread-safety: functions may run in several threads at once on different communicators; each waits for its own.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "src/communicator/communicator.h"

namespace tutti::launch {

struct Launched {
  comm::Communicator* communicator;
  plan::Operation operation;
};

// With TUTTI_CHECK, a barrier follows every operation that may end alone. A rank that leaves the barrier has heard from
// all ranks, and the tags of the barrier's slots show which calls came before.
inline bool MustCheck(const comm::Communicator& communicator, const plan::Operation& operation) {
  return communicator.options().settings.check && communicator.size() > 1 && plan::MayEndAlone(operation);
}
const plan::Operation& CheckingBarrier();

// Runs one operation in this thread. Returns the failure, if any; never throws. REQUIRES: the communicator is locked.
std::optional<Error> RunOne(comm::Communicator& communicator, const plan::Operation& operation, host::WhoWaits who);

// Waits for the end of a repeated call that has begun, and ends it. Returns the failure, if any; never throws.
// REQUIRES: the communicator is locked.
std::optional<Error> FinishAgain(comm::Communicator& communicator, const comm::Active& active);

// Runs all of them in this thread. On one communicator, collectives run in the order given, messages of one pair and
// direction likewise; everything else runs concurrently. Messages to oneself are copied. A failing communicator ends
// its own operations, not the others'. Returns the first failure; never throws.
//
// `left(communicator, failure)` is called once for each communicator, as soon as its own part is over. Nothing here
// uses the communicator after that, so it may be aborted and freed while the others' operations go on.
using Left = std::function<void(comm::Communicator&, const std::optional<Error>&)>;
std::optional<Error> RunAll(std::span<const Launched> group, host::WhoWaits who, const Left& left);

}  // namespace tutti::launch
