// How a handle gets its communicator: here, in the background, or at the end of a group.
//
// Thread-safety: any thread.
#pragma once

#include <functional>
#include <memory>

#include "src/calls/group.h"

namespace tutti::calls {

// Publishes the handle, so that another thread may abort it while this one joins.
void Show(tuttiComm_t* out, tuttiComm_t handle);

using Make = std::function<std::unique_ptr<comm::Communicator>(tuttiComm& handle)>;

// Makes a handle, then the communicator in it with `make`. *out is set at once, and reset to null if a blocking join
// fails. `rank` and `nranks` are -1 and 0 if only `make` knows them. `parent`: the one it derives from, or null; `make`
// has the use of it (ControlUse).
tuttiResult_t JoinInto(tuttiComm_t* out, int rank, int nranks, const comm::Options& options, tuttiComm* parent,
                       Make make);
// Runs `work`, which has the use of the parent, on ranks that take part and get no communicator.
tuttiResult_t TakePart(const std::shared_ptr<tuttiComm>& parent, std::function<void()> work);

}  // namespace tutti::calls
