// A repeated small call, from the C entry to its end: the short path of most calls of a loop.
//
// Thread-safety: as group.h.
#pragma once

#include <optional>

#include "src/calls/handle.h"

namespace tutti::calls {

// Runs the call, unchecked, if it repeats one of the communicator's latest calls and runs in the caller. nullopt: it
// does not, or the handle takes no call; nothing has happened. `handle` may be anything that a caller may pass.
std::optional<tuttiResult_t> SubmitAgain(tuttiComm* handle, const plan::PlainCall& call, tuttiStream_t stream) noexcept;

}  // namespace tutti::calls
