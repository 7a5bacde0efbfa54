// One rank's communicator of the library, and who is inside a call on it.
//
// Thread-safety: functions need the GIL unless they say otherwise. A Handle holds no Python object, so any thread may
// drop the last reference to it.
#pragma once

#include <nanobind/nanobind.h>
#include <tutti/python_site.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

  // Calls run in the order in which Python made them, whichever streams they are on. So a call on a stream takes a turn,
  // and so does one that runs at once while others wait (Turns). The GIL makes this one order for all communicators, so
  // calls cannot block each other forever.
  std::uint64_t TakeTurn();
  // Waits until the turns before this one are over, or the communicator is stopped. Any thread; needs no GIL. False: not
  // within the time.
  bool AwaitTurn(std::uint64_t turn, std::chrono::milliseconds time);
  void EndTurn(std::uint64_t turn);  // any thread; needs no GIL
  // Turns are taken. Any thread. In a child of fork() nobody would end them, and the library refuses calls.
  bool busy() const { return waiting_.load(std::memory_order_relaxed) != 0 && process_ == getpid(); }
  // Waits, with the GIL released, until all turns are over.
  void AwaitIdle();

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
  [[noreturn]] void FailCall(tuttiResult_t code, const std::string& message);
  // The message of the last failure. Any thread.
  std::string LastError() const;

  tuttiComm_t communicator_ = nullptr;
  bool open_ = false;
  bool freed_ = false;  // by Close or Abort
  int rank_ = 0;
  int size_ = 0;
  bool interrupted_ = false;    // while it was made or closed
  int main_thread_inside_ = 0;  // calls of the main thread that may wait now
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::uint64_t> turns_;  // under mutex_
  std::uint64_t next_turn_ = 0;    // under mutex_
  bool stopped_ = false;           // under mutex_
  const pid_t process_ = getpid();
  std::atomic<std::size_t> waiting_{0};  // the size of turns_
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

// The turns of a call, or of a group's calls, one on each communicator. They end with this object at the latest.
class Turns {
 public:
  Turns() = default;
  ~Turns() { End(); }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  void Take(const std::shared_ptr<Handle>& handle);
  // For a call that runs in this thread now: it needs a turn only if calls on streams wait.
  void TakeIfBusy(const std::shared_ptr<Handle>& handle) {
    if (handle->busy() && !in_stream) [[unlikely]]
      Take(handle);
  }
  // Waits with the GIL released. Ctrl-C ends the wait. Raises InvalidUsageError if a communicator is closed meanwhile.
  void Await();
  // In a stream's thread, which neither has the GIL nor sees Ctrl-C.
  void AwaitWithoutGil();
  void End();  // needs no GIL

  // This thread is a stream's. A call that a callback makes there runs at once, because the calls that wait on the
  // stream wait for the callback.
  static constinit thread_local bool in_stream;

 private:
  std::vector<std::pair<std::shared_ptr<Handle>, std::uint64_t>> taken_;
};

template <typename Call>
void Handle::RunFor(const Handle& parent, const Call& call) {
  auto result = tuttiSuccess;
  std::string message;
  {
    const MainThreadInside inside(*this);
    const auto* const site = tutti::python_site::CurrentPythonSite().get();
    const nanobind::gil_scoped_release released;
    const tutti::CallsFrom named(tutti::python_site::AsCallSite(site));
    result = call();
    if (result != tuttiSuccess) [[unlikely]]
      message = parent.LastError();
  }
  if (result != tuttiSuccess) [[unlikely]]
    FailCall(result, message);
}

}  // namespace tutti_python
