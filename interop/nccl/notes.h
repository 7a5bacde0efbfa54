// What must be remembered of a communicator and Tutti does not tell: whether it blocks, the id that it will grow by,
// and where its windows lie.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <optional>
#include <unordered_map>

#include "interop/nccl/nccl.h"

namespace tutti::nccl {

void NoteNonBlocking(ncclComm_t comm);
bool IsNonBlocking(ncclComm_t comm);

void NoteGrowth(ncclComm_t comm, const ncclUniqueId& id);
// The id, once.
std::optional<ncclUniqueId> TakeGrowth(ncclComm_t comm);

void NoteWindow(ncclComm_t comm, ncclWindow_t window, void* buffer);
void ForgetWindow(ncclComm_t comm, ncclWindow_t window);
// Null if comm has no such window.
void* BufferOf(ncclComm_t comm, ncclWindow_t window);

// Before the communicator goes: its address may come back.
void Forget(ncclComm_t comm);

}  // namespace tutti::nccl
