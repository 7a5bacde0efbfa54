// What a tuttiComm_t points to: the communicator once it is there, and what must be answerable before, after and beside
// it - from any thread, also for a communicator that was destroyed or inherited over fork().
//
// Thread-safety: see each member.
#pragma once

#include <sched.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/communicator.h"
#include "src/stream.h"

struct tuttiComm {
  enum class Life { joining, ready, finalized, destroyed };

  // Written once by whoever joins (then `life` is released), read by everybody.
  std::unique_ptr<tutti::Communicator> communicator;
  std::atomic<Life> life{Life::joining};
  std::uint32_t birthmark = 0;  // of the process that made it (OwnProcessMark)
  int rank = -1;
  int nranks = 0;
  bool blocking = true;
  std::atomic<bool> cancel{false};  // joining gives up; nobody may begin to use the communicator any more

  // Abort may come while other threads are inside calls, and must free nothing under them. Who works on the
  // communicator has its lock, which is here because handles outlive communicators; who only asks, or queues, has a
  // Hold.
  std::atomic<bool> busy{false};
  std::atomic<int> holds{0};
  void lock() {
    while (busy.exchange(true, std::memory_order_acquire)) sched_yield();
  }
  void unlock() { busy.store(false, std::memory_order_release); }

  // Work of a non-blocking communicator, its joining first.
  std::unique_ptr<tutti::Stream> background;
  std::atomic<int> pending{0};  // queued on any stream and not yet done

  std::mutex mutex;  // guards the rest
  tuttiResult_t first_failure = tuttiSuccess;
  std::string last_error;  // what tuttiGetLastError hands out; kept until the next failure
  struct UserOp {
    tuttiDataType_t type;
    tutti::Scalar scalar;
    const void* source;  // read when the collective runs, if not null
    bool live;
  };
  std::vector<UserOp> user_ops;  // tuttiRedOp_t tuttiNumOps + i
};

namespace tutti {

// A fresh handle. A destroyed one stays in quarantine for long, so that its later use can be told.
tuttiComm* NewHandle();
void RetireHandle(tuttiComm* handle);

// The handle, if it is one of ours, alive and of this process. Throws tuttiInvalidArgument / tuttiInvalidUsage.
tuttiComm& Checked(tuttiComm* handle);
// Also joined and not finalized.
tuttiComm& Ready(tuttiComm* handle);
// Also alive. Throws the failure that killed it. REQUIRES: the caller has the handle's lock, or a Hold.
Communicator& Usable(tuttiComm* handle);

// While it lives, the handle's communicator is not freed by Abort. Throws tuttiInvalidArgument if that has begun.
class Hold {
 public:
  explicit Hold(tuttiComm& handle) : handle_(handle) {
    // Sequentially consistent, as Abort's store and load: either it sees this hold, or this sees that it has begun.
    handle_.holds.fetch_add(1, std::memory_order_seq_cst);
    if (!handle_.cancel.load(std::memory_order_seq_cst)) return;
    handle_.holds.fetch_sub(1, std::memory_order_release);
    Throw(tuttiInvalidArgument, "comm was destroyed or aborted before");
  }
  ~Hold() { handle_.holds.fetch_sub(1, std::memory_order_release); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  tuttiComm& handle_;
};

// Keeps a failure for tuttiGetLastError (of the handle, or of this thread when it is null) and returns its code.
tuttiResult_t Remember(tuttiComm* handle, const Error& error);
const char* LastError(tuttiComm* handle);

// Runs `body` and turns what it throws into a result code: the C boundary.
template <typename Body>
tuttiResult_t Guard(tuttiComm* handle, Body&& body) noexcept {
  try {
    body();
    return tuttiSuccess;
  } catch (const Error& error) {
    return Remember(handle, error);
  } catch (const std::bad_alloc&) {
    return Remember(handle, Error(tuttiSystemError, "out of memory"));
  } catch (const std::exception& exception) {
    return Remember(handle, Error(tuttiInternalError, exception.what()));
  }
}

// A Guard whose body has a result of its own.
template <typename Body>
tuttiResult_t GuardResult(tuttiComm* handle, Body&& body) noexcept {
  tuttiResult_t result = tuttiSuccess;
  const auto guarded = Guard(handle, [&] { result = body(); });
  return guarded != tuttiSuccess ? guarded : result;
}

// For getters: finalized and dead communicators still answer.
// REQUIRES: the caller has a Hold.
inline Communicator& Made(tuttiComm* pointer) {
  auto& handle = Checked(pointer);
  const bool joining = handle.life.load(std::memory_order_acquire) == tuttiComm::Life::joining;
  return joining || handle.communicator == nullptr ? Usable(pointer) : *handle.communicator;
}

// REQUIRES: called under a Guard.
inline void CheckOutput(const char* name, const void* pointer) {
  if (pointer == nullptr) Throw(tuttiInvalidArgument, "{} is NULL", name);
}

}  // namespace tutti
