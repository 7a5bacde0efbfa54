// Releases Python's lock for a scope, in a thread that may or may not hold it.
//
// Python may hold its lock while it destroys or changes a group, and callbacks of running operations may be waiting for
// that lock.
#pragma once

#include <Python.h>

namespace tutti::pytorch {

class WithoutPythonsLock {
 public:
  WithoutPythonsLock() : state_(Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr) {}
  ~WithoutPythonsLock() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  WithoutPythonsLock(const WithoutPythonsLock&) = delete;
  WithoutPythonsLock& operator=(const WithoutPythonsLock&) = delete;

 private:
  PyThreadState* const state_;
};

}  // namespace tutti::pytorch
