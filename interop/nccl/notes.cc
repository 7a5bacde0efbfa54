#include "interop/nccl/notes.h"

#include <mutex>
#include <utility>

namespace tutti::nccl {
namespace {

struct Notes {
  bool non_blocking = false;
  std::optional<ncclUniqueId> growth;
};

// Process-wide like Tutti's own handle table, because C callers have only the handle.
struct Registry {
  std::mutex mutex;
  std::unordered_map<ncclComm_t, Notes> notes;
  std::unordered_map<ncclWindow_t, NotedWindow> windows;
};

Registry& TheRegistry() {
  static auto* const registry = new Registry;  // never destroyed: communicators may be used while the process exits
  return *registry;
}

// Applies `body` to comm's notes; returns Result{} if there are none.
template <typename Result, typename Body>
Result IfNoted(ncclComm_t comm, Body&& body) {
  auto& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.notes.find(comm);
  return found == registry.notes.end() ? Result{} : body(found->second);
}

template <typename Body>
void Note(ncclComm_t comm, Body&& body) {
  auto& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  body(registry.notes[comm]);
}

}  // namespace

void NoteNonBlocking(ncclComm_t comm) {
  Note(comm, [](Notes& notes) { notes.non_blocking = true; });
}

bool IsNonBlocking(ncclComm_t comm) {
  return IfNoted<bool>(comm, [](const Notes& notes) { return notes.non_blocking; });
}

void NoteGrowth(ncclComm_t comm, const ncclUniqueId& id) {
  Note(comm, [&](Notes& notes) { notes.growth = id; });
}

std::optional<ncclUniqueId> TakeGrowth(ncclComm_t comm) {
  return IfNoted<std::optional<ncclUniqueId>>(comm,
                                              [](Notes& notes) { return std::exchange(notes.growth, std::nullopt); });
}

void NoteWindow(ncclComm_t comm, ncclWindow_t window, void* buffer) {
  auto& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.windows[window] = {comm, buffer};
}

void ForgetWindow(ncclWindow_t window) {
  auto& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.windows.erase(window);
}

std::optional<NotedWindow> FindWindow(ncclWindow_t window) {
  auto& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.windows.find(window);
  return found == registry.windows.end() ? std::nullopt : std::optional(found->second);
}

void Forget(ncclComm_t comm) {
  auto& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.notes.erase(comm);
  std::erase_if(registry.windows, [&](const auto& window) { return window.second.comm == comm; });
}

}  // namespace tutti::nccl
