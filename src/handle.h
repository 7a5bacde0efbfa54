// What a tuttiComm_t points to: the communicator once it is there, and what must be answerable before, after and beside
// it - from any thread, also for a communicator that was destroyed or inherited over fork().
//
// Thread-safety: see each member.
#pragma once

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
  const std::atomic<std::uint32_t>* birthmark = nullptr;  // reads 0 in a forked child
  int rank = -1;
  int nranks = 0;
  bool blocking = true;
  std::atomic<bool> cancel{false};  // joining gives up

  // Work of a non-blocking communicator, its joining first.
  std::unique_ptr<tutti::Stream> background;
  std::atomic<int> pending{0};  // queued on any stream and not yet done

  std::mutex mutex;  // guards the rest
  tuttiResult_t first_failure = tuttiSuccess;
  std::string last_error;        // what tuttiGetLastError hands out; kept until the next failure
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
// Also joined and neither finalized nor dead. Throws the failure that killed it.
Communicator& Usable(tuttiComm* handle);

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

}  // namespace tutti
