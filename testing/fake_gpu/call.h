// How entry points of the fake GPU return errors: their work calls Fail, and the caller gets a code.
//
// Thread-safety: all of it.
#pragma once

#include <cuda.h>

#include <new>

namespace tutti::fake_gpu {

struct Failure {
  CUresult code;
};

[[noreturn]] inline void Fail(CUresult code) { throw Failure{code}; }

inline void Require(bool holds, CUresult otherwise) {
  if (!holds) Fail(otherwise);
}

// Fails unless the driver is initialized, by this process and not its parent, and no host function runs in this thread.
void RequireUsable();
void SetInitialized();
// From now on the driver refuses every call, as it does after a kernel has faulted.
void LoseContext();

// While it lives, this thread runs a host function, which must not call the driver.
class InHostFunction {
 public:
  InHostFunction();
  ~InHostFunction();
  InHostFunction(const InHostFunction&) = delete;
  InHostFunction& operator=(const InHostFunction&) = delete;
};

template <class Work>
CUresult AnswerUninitialized(Work&& work) {
  try {
    work();
    return CUDA_SUCCESS;
  } catch (const Failure& failure) {
    return failure.code;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

template <class Work>
CUresult Answer(Work&& work) {
  return AnswerUninitialized([&] {
    RequireUsable();
    work();
    RequireUsable();  // the context may have been lost while the call waited
  });
}

}  // namespace tutti::fake_gpu
