// The one error type. Control paths throw it with a message for a person; the C boundary turns it into a result code
// (Guard in src/calls/handle.h). The data path never throws: it records a Fault and returns.
//
// Thread-safety: value types, no shared state.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

#include "tutti/tutti.h"

namespace tutti {

// Copies share nothing (std::runtime_error's share their text), so each belongs to one thread.
class Error : public std::exception {
 public:
  Error(tuttiResult_t code, std::string message) : code_(code), message_(std::move(message)) {}

  tuttiResult_t code() const { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  tuttiResult_t code_;
  std::string message_;
};

template <typename... Args>
[[noreturn]] void Throw(tuttiResult_t code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// The system's words for an errno; for 0, that it gave no reason. Libraries may fail without setting errno.
std::string ErrnoText(int error_number);

// Throws tuttiSystemError: "<what>: <ErrnoText(error_number)>".
[[noreturn]] void ThrowSystem(const std::string& what, int error_number);
// As above with errno, read first.
[[noreturn]] void ThrowErrno(const std::string& what);

// A constant phrase for a result code; never null, also for unknown codes.
const char* ResultPhrase(tuttiResult_t code);

}  // namespace tutti
