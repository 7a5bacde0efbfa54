// A barrier that names missing ranks and leaves the group usable: it uses the board, not a communicator. The other
// ranks write that they have arrived; rank 0 waits for that and releases them.
//
// Thread-safety: may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>

#include "interop/torch/csrc/communicator.h"

namespace tutti::pytorch {

// The `number`-th barrier of the group `all`. Throws Failure with PyTorch's wording. Rank 0 reports "Rank 2 failed to
// pass monitoredBarrier" for the first missing rank, or "Ranks 2, 3 failed ..." for all of them. The other ranks report
// that they reached the barrier and that rank 0 did not release them.
void MonitoredBarrier(const Meeting& all, Board& board, std::uint64_t number, std::chrono::milliseconds timeout,
                      bool wait_all_ranks);

}  // namespace tutti::pytorch
