// Facts about a communicator that Tutti does not report: whether it blocks, the id for its next growth, and where its
// windows are.
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
// Returns the id, once.
std::optional<ncclUniqueId> TakeGrowth(ncclComm_t comm);

void NoteWindow(ncclComm_t comm, ncclWindow_t window, void* buffer);
void ForgetWindow(ncclWindow_t window);
struct NotedWindow {
  ncclComm_t comm;
  void* buffer;
};
std::optional<NotedWindow> FindWindow(ncclWindow_t window);

// Call before the communicator is freed, because its address may be reused.
void Forget(ncclComm_t comm);

}  // namespace tutti::nccl
