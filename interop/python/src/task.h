// A call, or a group of calls, that runs later: in a stream's thread, or at a group's end.
//
// Thread-safety: see each function. Arrays are Python objects, so they are freed with the GIL only.
#pragma once

#include <nanobind/nanobind.h>
#include <tutti/tutti.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "array.h"
#include "handle.h"

namespace tutti_python {

// The memory of one call.
struct Arrays {
  Array send;
  Array receive;
};

// One call of the C API that has not run yet, without Python objects. Needs the GIL to be made.
struct Call {
  std::shared_ptr<Handle> handle;
  std::function<tuttiResult_t()> run;
  tutti::python_site::SitePointer site = tutti::python_site::CurrentPythonSite();  // where it was called
};

struct Callback {
  nanobind::object function, argument;
};

// Python objects that must live until a call has ended.
struct Kept {
  std::vector<std::unique_ptr<Arrays>> arrays;
  std::vector<Callback> callbacks;
  nanobind::object result = nanobind::none();
};

// Whether this thread has the GIL.
inline bool HoldsGil() {
  if (Py_IsInitialized() == 0) return false;
#ifdef Py_LIMITED_API
  return PyThreadState_GetDict() != nullptr;  // from Python 3.12 on, only with the GIL
#else
  return PyGILState_Check() != 0;
#endif
}

// Without the GIL, which a process that ends no longer grants, objects are left to the system.
struct FreeWithGil {
  void operator()(Kept* kept) const {
    if (HoldsGil()) delete kept;
  }
};
using KeptPointer = std::unique_ptr<Kept, FreeWithGil>;

struct Outcome {
  tuttiResult_t code = tuttiSuccess;
  std::string message;
};

// Runs one call, or several as a group of the library. Any thread; needs no GIL.
Outcome RunCalls(const std::vector<Call>& calls);

class Task {
 public:
  // Takes turns on the calls' communicators, until it has run. Needs the GIL.
  Task(std::vector<Call> calls, KeptPointer kept);
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  // Runs the calls in their turns, and wakes those who wait. Returns whether callbacks are to be run. Any thread; needs no GIL.
  bool Run();
  // After Run: runs the callbacks and frees the arrays, not the result. Needs the GIL.
  void Finish();

  bool done() const;
  // False: not done within the time. Any thread; needs no GIL.
  bool AwaitFor(std::chrono::milliseconds time) const;
  // REQUIRES: done.
  const Outcome& outcome() const { return outcome_; }
  // REQUIRES: done. Frees the arrays now, rather than when the stream's thread comes to it. Needs the GIL.
  void FreeArrays();
  // What the call returns to Python. Needs the GIL.
  nanobind::object result() const { return kept_->result; }
  // Runs callback(argument) once the task is done: at once, or in the stream's thread. Needs the GIL.
  void AddCallback(nanobind::object callback, nanobind::object argument);

 private:
  std::vector<Call> calls_;
  Turns turns_;
  KeptPointer kept_;  // its callbacks: under mutex_
  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  bool done_ = false;  // under mutex_
  Outcome outcome_;
};

}  // namespace tutti_python
