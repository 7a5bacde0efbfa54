// Failures as NCCL's callers see them: a result code, and a message for ncclGetLastError. For failures of Tutti, Tutti
// has the message; for calls that this interface itself refuses, this file keeps it per thread.
//
// Thread-safety: every thread has its own last failure.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "interop/nccl/nccl.h"
#include "tutti/tutti.h"

namespace tutti::nccl {

// Thrown by bodies under Guard.
class Refusal : public std::runtime_error {
 public:
  Refusal(ncclResult_t code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ncclResult_t code() const { return code_; }

 private:
  ncclResult_t code_;
};

template <typename... Arguments>
[[noreturn]] void Refuse(ncclResult_t code, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Refusal(code, fmt::format(text, std::forward<Arguments>(arguments)...));
}

inline void CheckGiven(const char* name, const void* pointer) {
  if (pointer == nullptr) Refuse(ncclInvalidArgument, "{} is NULL", name);
}

// Tutti refused and has the message. Thrown by bodies under Guard.
struct TuttiFailure {
  tuttiResult_t result;
};
inline void Check(tuttiResult_t result) {
  if (result != tuttiSuccess) throw TuttiFailure{result};
}

// The NCCL code for `result`. If it is a failure, the message is Tutti's.
ncclResult_t FromTutti(tuttiResult_t result) noexcept;

// Keeps `text` for LastFailure(comm) of this thread; returns `code`.
ncclResult_t Remember(ncclComm_t comm, ncclResult_t code, std::string_view text) noexcept;

// The message of comm's last failure; for null, of this thread's, or if it had none, of any thread's, as in NCCL.
const char* LastFailure(ncclComm_t comm) noexcept;

// Runs a body that returns a result and turns its exceptions into a code and a message, so that none reaches C.
template <typename Body>
ncclResult_t Guard(ncclComm_t comm, Body&& body) noexcept {
  try {
    return body();
  } catch (const TuttiFailure& failure) {
    return FromTutti(failure.result);
  } catch (const Refusal& refusal) {
    return Remember(comm, refusal.code(), refusal.what());
  } catch (const std::exception& exception) {
    return Remember(comm, ncclSystemError, exception.what());
  }
}

}  // namespace tutti::nccl
