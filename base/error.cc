#include "base/error.h"

#include <cerrno>
#include <system_error>

namespace tutti {

std::string ErrnoText(int error_number) {
  return error_number == 0 ? "the system gave no reason" : std::generic_category().message(error_number);
}

void ThrowSystem(const std::string& what, int error_number) {
  Throw(tuttiSystemError, "{}: {}", what, ErrnoText(error_number));
}

void ThrowErrno(const std::string& what) { ThrowSystem(what, errno); }

const char* ResultPhrase(tuttiResult_t code) {
  switch (code) {
    case tuttiSuccess: return "no error";
    case tuttiUnhandledCudaError: return "unhandled CUDA error";
    case tuttiSystemError: return "system error";
    case tuttiInternalError: return "internal error";
    case tuttiInvalidArgument: return "invalid argument";
    case tuttiInvalidUsage: return "invalid usage";
    case tuttiRemoteError: return "another rank failed or left";
    case tuttiInProgress: return "operation in progress";
    case tuttiTimeoutError: return "timed out";
    case tuttiNumResults: break;
  }
  return "unknown result code";
}

}  // namespace tutti
