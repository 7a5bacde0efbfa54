// Words that a person typed are wrong: an unknown name, or words that do not go together. Programs tell a wrong command
// line from a failure by it (base/command_line/run.h).
//
// Thread-safety: value type, no shared state.
#pragma once

#include <utility>

#include "base/error.h"

namespace tutti {

class UsageError : public Error {
 public:
  explicit UsageError(std::string message) : Error(tuttiInvalidArgument, std::move(message)) {}
};

template <typename... Args>
[[noreturn]] void ThrowUsage(fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tutti
