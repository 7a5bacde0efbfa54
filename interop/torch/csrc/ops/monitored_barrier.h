// A barrier that names the ranks that have not come, and leaves the group usable: it goes over the board, not through a
// communicator. The other ranks write that they are there; rank 0 waits for that, and lets them pass.
//
// Thread-safety: may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>

#include "interop/torch/csrc/communicator.h"

namespace tutti::pytorch {

// The `number`-th barrier of the group `all`. Throws Failure with PyTorch's words. Rank 0 says "Rank 2 failed to pass
// monitoredBarrier", of the first rank that is missing, or "Ranks 2, 3 failed ...", of all of them. The other ranks say
// that they have reached the barrier, and that rank 0 has not let them pass.
void MonitoredBarrier(const Meeting& all, Board& board, std::uint64_t number, std::chrono::milliseconds timeout,
                      bool wait_all_ranks);

}  // namespace tutti::pytorch
