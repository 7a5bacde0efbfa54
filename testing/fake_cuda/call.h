// How an entry point of the stand-in answers: its work says Fail, the caller gets a code.
//
// Thread-safety: all of it.
#pragma once

#include <cuda.h>

#include <new>

namespace tutti::standin {

struct Failure {
  CUresult code;
};

[[noreturn]] inline void Fail(CUresult code) { throw Failure{code}; }

inline void Require(bool holds, CUresult otherwise) {
  if (!holds) Fail(otherwise);
}

// The driver is initialized, this is not a forked child of the process that did it, nor a host function of a stream.
void RequireUsable();
void SetInitialized();

// While it lives, this thread runs a host function, from which the driver must not be called.
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
  });
}

}  // namespace tutti::standin
