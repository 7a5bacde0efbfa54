// The exception by which the parallel layer reports errors. Names in this layer are those of Megatron-Core, PyTorch and
// vLLM, in their spelling.
#pragma once

#include <stdexcept>
#include <string>

#include "tutti/tutti.h"

namespace tutti::parallel {

// `code` is what a C function would have returned, what() a sentence for people. If a code leaves a communicator dead
// (tutti.h), its group is dead.
class TUTTI_API Error : public std::runtime_error {
 public:
  Error(tuttiResult_t code, const std::string& message) : std::runtime_error(message), code_(code) {}
  tuttiResult_t code() const { return code_; }

 private:
  tuttiResult_t code_;
};

// Throws Error with the library's own sentence (for `comm`, or for this thread) unless `result` is tuttiSuccess.
TUTTI_API void check(tuttiResult_t result, tuttiComm_t comm = nullptr);

}  // namespace tutti::parallel
