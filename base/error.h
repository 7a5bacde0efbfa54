// The one error type. Thrown in control paths with a message for a person, turned into a result code at the C boundary
// (src/boundary.h). The data path never throws: it records a Fault and returns.
//
// Thread-safety: value types, no shared state.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "tutti/tutti.h"

namespace tutti {

class Error : public std::runtime_error {
 public:
  Error(tuttiResult_t code, const std::string& message) : std::runtime_error(message), code_(code) {}

  tuttiResult_t code() const { return code_; }

 private:
  tuttiResult_t code_;
};

template <typename... Args>
[[noreturn]] void Throw(tuttiResult_t code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// Throws tuttiSystemError: "<what>: <strerror(error_number)>".
[[noreturn]] void ThrowSystem(const std::string& what, int error_number);
// As above with errno, read first.
[[noreturn]] void ThrowErrno(const std::string& what);

// A constant phrase for a result code; never null, also for unknown codes.
const char* ResultPhrase(tuttiResult_t code);

}  // namespace tutti
