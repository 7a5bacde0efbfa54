// Pins measured ranks to cores. Thread-safe.
#pragma once

#include <sys/types.h>

namespace tutti::bench {

// Pins a thread (0: the calling one), and threads it starts later, to the (rank mod cores)th of the cores that the calling
// thread may use.
void PinToCore(int rank, pid_t thread = 0);

}  // namespace tutti::bench
