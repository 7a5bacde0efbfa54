// How a handle gets its communicator: here, in the background, or at the end of a group.
//
// Thread-safety: any thread.
#pragma once

#include <functional>
#include <memory>

#include "src/group.h"

namespace tutti {

// Another thread may look at the handle while this one joins, to abort it.
void Show(tuttiComm_t* out, tuttiComm_t handle);

using Make = std::function<std::unique_ptr<Communicator>(tuttiComm& handle)>;

// Makes a handle, then the communicator in it by `make`. *out is set at once, and to null again if a blocking join
// fails. `rank` and `nranks` are -1 and 0 if only `make` knows. `parent` is what it comes of, or null.
tuttiResult_t JoinInto(tuttiComm_t* out, int rank, int nranks, const Options& options, tuttiComm* parent, Make make);
// Runs `work` in the parent's name, for ranks that take part and get no communicator.
tuttiResult_t TakePart(const std::shared_ptr<tuttiComm>& parent, std::function<void()> work);

}  // namespace tutti
