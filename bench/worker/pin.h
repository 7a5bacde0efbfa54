// Where a measured rank runs. Thread-safe.
#pragma once

namespace tutti::bench {

// Keeps the calling thread, and threads it starts, on the (rank mod cores)th of the cores it may use.
void PinToCore(int rank);

}  // namespace tutti::bench
