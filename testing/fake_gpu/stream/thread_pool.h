// Threads that are kept for reuse.
#pragma once

#include <cstddef>
#include <functional>

namespace tutti::fake_gpu {

// Runs part(i) for every i below `count`, all at the same time, one of them in the caller's thread. Returns when all
// are done.
void RunTogether(std::size_t count, const std::function<void(std::size_t)>& part);

}  // namespace tutti::fake_gpu
