// Runs one operation to its end.
//
// Thread-safety: functions may run in several threads at once on different communicators; each waits for its own.
#pragma once

#include <optional>

#include "base/error.h"
#include "src/communicator/communicator.h"

namespace tutti::calls {

// With TUTTI_CHECK, a barrier follows every operation that may end alone. A rank that leaves the barrier has heard from
// all ranks, and the tags of the barrier's slots show which calls came before.
inline bool MustCheck(const comm::Communicator& communicator, const plan::Operation& operation) {
  return communicator.options().settings.check && communicator.size() > 1 && plan::MayEndAlone(operation);
}
const plan::Operation& CheckingBarrier();

// Locks the communicator and runs one operation in this thread. Returns the failure, if any; never throws.
std::optional<Error> RunOne(comm::Communicator& communicator, const plan::Operation& operation, host::WhoWaits who);
// The part of it that follows the operation's beginning. REQUIRES: the communicator is locked.
std::optional<Error> Finish(comm::Communicator& communicator, const host_side::Active& active, host::WhoWaits who);

}  // namespace tutti::calls
