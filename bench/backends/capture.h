// A batch of calls as a CUDA graph, captured once and replayed.
//
// Thread-safety: each rank calls from its own thread.
#pragma once

#include <functional>

#include "bench/backends/gpu.h"
#include "bench/backends/library.h"

namespace tutti::bench {

// This rank's calls in a graph of its own.
BoundCall CaptureAlone(const Gpu& gpu, const std::function<void()>& call, int calls);

// Waits for the other threads of `threads` ranks of this process. Collective among those.
void MeetThreads(int threads);

// The calls of all `threads` ranks of this process in one graph, which the first rank to arrive replays for all: ranks
// that share a GPU are launched together, so their calls cannot be in separate graphs. Collective among those ranks.
BoundCall CaptureTogether(const Gpu& gpu, const std::function<void()>& call, int calls, int threads);

}  // namespace tutti::bench
