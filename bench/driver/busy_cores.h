// Processes that compute without pause, as another user's job would.
//
// Thread-safety: one thread.
#pragma once

#include <vector>

#include "bench/driver/process.h"

namespace tutti::bench {

// Starts `count` processes: on the last core that this process may use, on the one before it, and so on. Throws
// std::runtime_error if one cannot start.
std::vector<Process> KeepLastCoresBusy(int count);

}  // namespace tutti::bench
