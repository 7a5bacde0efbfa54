// Tutti as the library under test.
#pragma once

#include <memory>

#include "bench/backends/library.h"

namespace tutti::bench {

// Takes over `comm`; destroying the library destroys it.
std::unique_ptr<Library> WrapCommunicator(tuttiComm_t comm, const CallSettings& settings);
// Throws std::runtime_error with the library's own message.
void CheckTutti(tuttiResult_t result, tuttiComm_t comm, const char* call);

}  // namespace tutti::bench
