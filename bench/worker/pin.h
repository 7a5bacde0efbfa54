// Pins measured ranks to cores. Thread-safe.
#pragma once

namespace tutti::bench {

// Pins the calling thread, and threads it starts later, to the (rank mod cores)th of the cores it may use.
void PinToCore(int rank);

}  // namespace tutti::bench
