// Turns result codes into Python exceptions of tutti._errors.
//
// Thread-safety: functions need the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <tutti/tutti.h>

#include <string>

namespace tutti_python {

// Raises the exception class of the code.
[[noreturn]] void Fail(tuttiResult_t code, const std::string& message);

// The same where the caller raises: sets Python's error.
void SetError(tuttiResult_t code, const std::string& message);

// Raises TypeError: the argument `what` is of a kind that the call does not take. `advice` ends the sentence.
[[noreturn]] void FailType(const std::string& what, nanobind::handle given, const std::string& advice);

// What KeyboardInterrupt says of a call on a communicator.
inline constexpr const char* kCtrlCEndedCall =
    "Ctrl-C ended a call of tutti: the communicator is revoked, and ranks that need this one get a RemoteError";

// For calls without a communicator: raises if the call failed, with this thread's last message.
void Check(tuttiResult_t code);

// Runs pending handlers of signals, which may raise KeyboardInterrupt; Python's own then gets the text `ended`. Does
// nothing in threads other than the main one.
void CheckSignals(const char* ended = "Ctrl-C ended a wait of tutti");

}  // namespace tutti_python
