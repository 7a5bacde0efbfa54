// A barrier that says who has not come, and leaves the group usable: it goes over the board, not through a
// communicator. Rank 0 watches; the others tell it that they are there, and wait for its word.
//
// Thread-safety: may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>

#include "interop/torch/communicator.h"

namespace tutti::pytorch {

// The `number`-th of the group `all`. Throws Failure with PyTorch's words for it: on rank 0 "Rank 2 failed to pass
// monitoredBarrier", of the first that is missing, or "Ranks 2, 3 failed ..." of all of them; on the others that they
// have reached it and rank 0 has not let them pass.
void MonitoredBarrier(const Meeting& all, Board& board, std::uint64_t number, std::chrono::milliseconds timeout,
                      bool wait_all_ranks);

}  // namespace tutti::pytorch
