// A stream of the package: a thread that runs calls one after the other, in the order given, and a Work for each.
//
// It is not a stream of tuttiStreamCreate, which tells when all of its calls are done, but not when one of them is.
//
// Thread-safety: functions need the GIL. The stream's thread takes the GIL only to run callbacks and to free arrays, and
// unless callbacks wait, only when it has no more calls to run: another thread that computes may hold the GIL for
// milliseconds.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "task.h"

namespace tutti_python {

class Work {
 public:
  explicit Work(std::shared_ptr<Task> task) : task_(std::move(task)) {}

  bool done() const { return task_->done(); }
  // Waits, at most for `seconds`, with the GIL released and Ctrl-C possible; raises what the call failed with, or Python's
  // TimeoutError. Returns what the call would have returned without a stream.
  nanobind::object Wait(std::optional<double> seconds) const;
  void AddCallback(nanobind::object callback, nanobind::object argument) const;

 private:
  std::shared_ptr<Task> task_;
};

class Stream {
  struct State;

 public:
  Stream();
  ~Stream();  // lets the thread run what is queued, without waiting for it
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Raises InvalidUsageError if the stream is closed, or the parent process's.
  Work Enqueue(std::vector<Call> calls, KeptPointer kept);
  // Waits for the calls that are queued now; raises nothing of theirs.
  void Synchronize();
  // Waits for all calls, then ends the thread.
  void Close();
  bool closed() const;

  // The stream's thread, which goes on when a stream with calls is dropped.
  class Tail {
   public:
    // Whether the thread has ended.
    bool ended() const;
    // The process ends: the thread no longer takes the GIL.
    void Detach() const;

   private:
    friend class Stream;
    explicit Tail(std::shared_ptr<State> state) : state_(std::move(state)) {}

    std::shared_ptr<State> state_;
  };
  Tail tail() const { return Tail(state_); }

 private:
  static void Loop(const std::shared_ptr<State>& state);
  static void FinishTasks(State& state);
  void RequireThisProcess() const;
  // REQUIRES: called once at most.
  void EndQueue();

  std::shared_ptr<State> state_;  // shared with the thread
  std::thread thread_;
};

}  // namespace tutti_python
