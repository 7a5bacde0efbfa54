#include "src/calls/handle.h"

#include <deque>
#include <unordered_map>
#include <utility>

#include "base/extension.h"
#include "base/fork_safe_mutex.h"
#include "base/plain_text.h"
#include "base/threads/made_once.h"
#include "base/threads/patience.h"

namespace tutti::calls {
namespace {

// This many destroyed communicators can still be recognised; a job makes a few dozen.
constexpr std::size_t kQuarantine = 1024;

// Process-wide, because C callers hold a handle as a bare pointer: only a register can distinguish a live handle from a
// dead one without touching memory that may be gone.
struct Registry {
  ForkSafeMutex mutex;
  std::unordered_map<const tuttiComm*, std::shared_ptr<tuttiComm>> known;
  std::deque<std::shared_ptr<tuttiComm>> retired;
};

Registry& TheRegistry() {
  static constinit MadeOnce<Registry> registry;
  return registry.Get();
}

// Null if this process has not made the handle, or no longer keeps it.
std::shared_ptr<tuttiComm> Known(const tuttiComm* handle) {
  auto& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.known.find(handle);
  if (found == registry.known.end() || !found->second->birthmark.OfThisProcess()) return nullptr;
  return found->second;
}

std::string& ThreadError() {
  thread_local std::string text;
  return text;
}

}  // namespace

std::shared_ptr<tuttiComm> NewHandle() {
  auto handle = std::make_shared<tuttiComm>();
  auto& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.known.emplace(handle.get(), handle);
  return handle;
}

void Free(tuttiComm& handle) {
  Patience patience;
  while (!handle.life.TryFree()) patience.Pause();
  // After an abort, the background thread may still be busy with other communicators of a group.
  if (const auto background = std::exchange(handle.background, nullptr)) background->Leave();
  if (auto* const ending = TheExtension().ending; ending != nullptr && handle.communicator != nullptr) {
    auto facts = handle.communicator->facts();
    facts.comm = &handle;
    ending(&facts);
  }
  handle.communicator.reset();
  handle.life.Retire();
  std::shared_ptr<tuttiComm> oldest;  // destroyed after the lock is released
  auto& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.retired.push_back(handle.shared_from_this());
  if (registry.retired.size() <= kQuarantine) return;
  oldest = std::move(registry.retired.front());
  registry.retired.pop_front();
  registry.known.erase(oldest.get());
}

void ThrowGone() { Throw(tuttiInvalidArgument, "comm has been destroyed or aborted"); }

void RefuseHandle(const tuttiComm* handle) {
  if (handle == nullptr) Throw(tuttiInvalidArgument, "comm is NULL");
  if (handle->life.Look().retired()) ThrowGone();
  Throw(tuttiInvalidUsage, "comm belongs to the parent process; after fork() a child must make its own");
}

void RefuseOperation(LifeState state) {
  if (state.closing()) ThrowGone();
  if (state.finalised())
    Throw(tuttiInvalidUsage, "comm was finalized; only getters and tuttiCommDestroy may be called");
  Throw(tuttiInvalidUsage, "comm is still being made; poll tuttiCommGetAsyncError");
}

Asking::Asking(tuttiComm* handle) : handle_(Checked(handle)) {
  if (!handle_.life.EnterQuestion().admitted) ThrowGone();
}

comm::Communicator& Made(tuttiComm& handle) {
  if (!handle.life.Look().joined()) {
    Throw(tuttiInvalidUsage, "comm is still being made; poll tuttiCommGetAsyncError");
  }
  if (handle.communicator != nullptr) return *handle.communicator;
  const std::lock_guard lock(handle.mutex);
  throw Error(handle.background_failure, handle.last_error);
}

tuttiResult_t Remember(tuttiComm* handle, const Error& error) {
  // Every message to a person passes here, including those from peers.
  const std::string text = Printable(error.what());
  ThreadError() = text;
  if (const auto known = handle == nullptr ? nullptr : Known(handle)) {
    const std::lock_guard lock(known->mutex);
    known->last_error = text;
  }
  return error.code();
}

void KeepForAsyncError(tuttiComm& handle, tuttiResult_t failure) {
  const std::lock_guard lock(handle.mutex);
  if (handle.call_failure == tuttiSuccess) handle.call_failure = failure;
}

const char* LastError(tuttiComm* handle) {
  if (const auto known = handle == nullptr ? nullptr : Known(handle)) {
    const std::lock_guard lock(known->mutex);
    // A copy for this thread: another thread's failure must not move the text under the reader.
    ThreadError() = known->last_error;
  }
  return ThreadError().c_str();
}

}  // namespace tutti::calls
