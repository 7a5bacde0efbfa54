// The object behind a tuttiComm_t: the communicator once it exists, and the state that any thread can query before,
// after and alongside it, also for a communicator that was destroyed or inherited over fork().
//
// Thread-safety: see each member.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/process_mark.h"
#include "src/calls/lifecycle.h"
#include "src/calls/streams/stream.h"
#include "src/calls/turns.h"
#include "src/calls/user_ops.h"
#include "src/communicator/communicator.h"

// Everything that outlives a call on the handle (queued calls, a group's calls, waits for its end) shares it. So the
// handle stays, even if the communicator in it goes.
struct tuttiComm : std::enable_shared_from_this<tuttiComm> {
  tutti::calls::Lifecycle<> life;

  // Written by the joining thread, then published by life.Joined(). Read by threads that found it joined on entry.
  std::unique_ptr<tutti::comm::Communicator> communicator;
  const tutti::Birthmark birthmark;
  // -1 and 0 until known: a child of a communicator learns them by joining.
  std::atomic<int> rank{-1};
  std::atomic<int> nranks{0};
  bool blocking = true;
  std::atomic<bool> cancel{false};      // an abort was requested: joining gives up
  std::atomic<bool> finalizing{false};  // a non-blocking communicator's Finalize has yet to end

  // Runs the work of a non-blocking communicator, its joining first.
  std::shared_ptr<tutti::calls::Stream> background;

  // Control calls take these, calls that wait on streams, and calls made meanwhile: see admission.h.
  tutti::calls::Turns turns;

  std::mutex mutex;                                 // guards the rest
  tuttiResult_t background_failure = tuttiSuccess;  // of a non-blocking communicator's join or Finalize
  tuttiResult_t call_failure = tuttiSuccess;        // of its first other call that has failed there since it was asked
  std::string last_error;                           // returned by tuttiGetLastError; kept until the next failure
  tutti::calls::UserOps user_ops;
};

namespace tutti::calls {

// A fresh handle. A destroyed handle stays in quarantine for a long time, so that later use is detected.
std::shared_ptr<tuttiComm> NewHandle();
// Frees the communicator once no thread is inside. REQUIRES: the caller has won life.Claim(), and is not inside.
void Free(tuttiComm& handle);

// Throws the error of a handle that is closing.
[[noreturn]] void ThrowGone();
// Throws the reason why Checked() refuses the handle.
[[noreturn]] void RefuseHandle(const tuttiComm* handle);
// Throws the reason why no operation may begin.
[[noreturn]] void RefuseOperation(LifeState state);

// The handle, if it is one of ours, alive and of this process. Throws tuttiInvalidArgument / tuttiInvalidUsage.
inline tuttiComm& Checked(tuttiComm* handle) {
  // The quarantine makes these reads safe for any handle of the last thousand.
  if (handle == nullptr || handle->life.Look().retired() || !handle->birthmark.OfThisProcess()) [[unlikely]]
    RefuseHandle(handle);
  return *handle;
}

// Checks the handle and enters for an operation. Throws if it takes none.
inline tuttiComm& Enter(tuttiComm* handle) {
  if (handle == nullptr || !handle->birthmark.OfThisProcess()) [[unlikely]]
    RefuseHandle(handle);
  const auto entry = handle->life.EnterOperation();
  if (!entry.admitted) [[unlikely]]
    RefuseOperation(entry.state);
  return *handle;
}

// While this lives, the communicator is not freed. Throws if the handle takes no calls of that kind.
class Operating {
 public:
  explicit Operating(tuttiComm* handle) : handle_(Enter(handle)) {}
  ~Operating() { handle_.life.LeaveOperation(); }
  Operating(const Operating&) = delete;
  Operating& operator=(const Operating&) = delete;
  tuttiComm& handle() const { return handle_; }

 private:
  tuttiComm& handle_;
};

class Asking {
 public:
  explicit Asking(tuttiComm* handle);
  ~Asking() { handle_.life.LeaveQuestion(); }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
  tuttiComm& handle() const { return handle_; }

 private:
  tuttiComm& handle_;
};

// Also returns dead communicators. Throws if there is none: it is being made, or could not be made. REQUIRES: the
// caller is Operating or Asking.
comm::Communicator& Made(tuttiComm& handle);
// The communicator, alive. Throws the failure that killed it. REQUIRES: the caller is Operating.
inline comm::Communicator& Alive(tuttiComm& handle) {
  auto& communicator = handle.communicator != nullptr ? *handle.communicator : Made(handle);
  if (communicator.failed()) [[unlikely]]
    throw *communicator.failure();
  return communicator;
}
// Likewise, and not suspended.
inline comm::Communicator& Usable(tuttiComm& handle) {
  auto& communicator = Alive(handle);
  communicator.RequireResumed();
  return communicator;
}

// Keeps a failure for tuttiGetLastError (of the handle, or of this thread when it is null) and returns its code.
tuttiResult_t Remember(tuttiComm* handle, const Error& error);
const char* LastError(tuttiComm* handle);
// Keeps the failure of a call in the background for tuttiCommGetAsyncError.
void KeepForAsyncError(tuttiComm& handle, tuttiResult_t failure);

// Runs `body` and turns what it throws into a result code: the C boundary.
template <typename Body>
tuttiResult_t Guard(tuttiComm* handle, Body&& body) noexcept {
  try {
    body();
    return tuttiSuccess;
  } catch (...) {
    return Remember(handle, comm::CurrentFailure());
  }
}

// A Guard whose body returns its own result.
template <typename Body>
tuttiResult_t GuardResult(tuttiComm* handle, Body&& body) noexcept {
  tuttiResult_t result = tuttiSuccess;
  const auto guarded = Guard(handle, [&] { result = body(); });
  return guarded != tuttiSuccess ? guarded : result;
}

// REQUIRES: called under a Guard.
inline void CheckOutput(const char* name, const void* pointer) {
  if (pointer == nullptr) Throw(tuttiInvalidArgument, "{} is NULL", name);
}

}  // namespace tutti::calls
