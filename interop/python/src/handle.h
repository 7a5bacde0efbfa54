// One rank's communicator of the library, and who is inside a call on it.
//
// Thread-safety: functions need the GIL unless they say otherwise. A Handle holds no Python object, so any thread may
// drop the last reference to it.
#pragma once

#include <nanobind/nanobind.h>
#include <tutti/tutti.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "failure.h"

namespace tutti_python {

class Handle {
 public:
  Handle() = default;
  ~Handle();  // destroys a communicator that nobody has freed
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  // Where a call that makes a communicator puts it. The library stores it at once and by one atomic store.
  tuttiComm_t* place() { return &communicator_; }
  // The communicator has been made: reads what the getters of this class return. Raises on failure.
  void Opened();

  // Any thread. Null: none was made, or making it has failed.
  tuttiComm_t get() const;
  bool open() const { return open_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  // Raises InvalidUsageError if there is no open communicator.
  void RequireOpen() const {
    if (!open_) [[unlikely]]
      FailClosed();
  }

  // Runs one call without the GIL; raises if it fails. Ctrl-C ends it (Interrupt).
  // REQUIRES: call() returns a tuttiResult_t and touches no Python object.
  template <typename Call>
  void Run(const Call& call) {
    RunFor(*this, call);
  }
  // The same for a call on `parent` that makes this communicator: Ctrl-C ends the making, and the parent lives.
  template <typename Call>
  void RunFor(const Handle& parent, const Call& call);

  // For calls on streams. EndPending needs no GIL. AwaitPending waits, with the GIL released, until none is pending.
  void AddPending();
  void EndPending();
  void AwaitPending();

  // Closes: waits for calls on streams, then destroys. Does nothing if that has happened.
  void Close();
  // Stops everything on the communicator, here and for peers that wait, and frees it.
  void Abort();
  void Revoke();
  // Ends the call in which the main thread waits, if it does: that thread then raises KeyboardInterrupt.
  void Interrupt();

 private:
  friend class MainThreadInside;
  [[noreturn]] static void FailClosed();
  [[noreturn]] static void FailCall(tuttiResult_t code, const std::string& message);
  // The message of the last failure. Any thread.
  std::string LastError() const;

  tuttiComm_t communicator_ = nullptr;
  bool open_ = false;
  bool freed_ = false;  // by Close or Abort
  int rank_ = 0;
  int size_ = 0;
  int main_thread_inside_ = 0;  // calls of the main thread that may wait now
  std::mutex mutex_;
  std::condition_variable none_pending_;
  int pending_ = 0;  // under mutex_
};

bool IsMainThread();

// While it exists, the main thread is inside a call on the communicator, if the current thread is the main one. Handlers
// of signals that came before have run, so whoever sees a later signal also sees this.
class MainThreadInside {
 public:
  explicit MainThreadInside(Handle& handle) : handle_(IsMainThread() ? &handle : nullptr) {
    if (handle_ == nullptr) return;
    ++handle_->main_thread_inside_;
    if (PyErr_CheckSignals() != 0) [[unlikely]] {
      --handle_->main_thread_inside_;
      throw nanobind::python_error();
    }
  }
  ~MainThreadInside() {
    if (handle_ != nullptr) --handle_->main_thread_inside_;
  }
  MainThreadInside(const MainThreadInside&) = delete;
  MainThreadInside& operator=(const MainThreadInside&) = delete;

 private:
  Handle* handle_;
};

template <typename Call>
void Handle::RunFor(const Handle& parent, const Call& call) {
  auto result = tuttiSuccess;
  std::string message;
  {
    const MainThreadInside inside(*this);
    const nanobind::gil_scoped_release released;
    result = call();
    if (result != tuttiSuccess) [[unlikely]]
      message = parent.LastError();
  }
  if (result != tuttiSuccess) [[unlikely]]
    FailCall(result, message);
}

}  // namespace tutti_python
