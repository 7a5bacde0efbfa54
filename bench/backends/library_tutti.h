// Tutti as the measured library.
#pragma once

#include <memory>

#include "bench/backends/library.h"

namespace tutti::bench {

// Takes ownership of `comm` and destroys it with the library.
std::unique_ptr<Library> WrapCommunicator(tuttiComm_t comm, const CallSettings& settings);
// Throws std::runtime_error with the library's own message.
void CheckTutti(tuttiResult_t result, tuttiComm_t comm, const char* call);

}  // namespace tutti::bench
