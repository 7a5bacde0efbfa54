// Distinguishes this process from the processes that it was forked from.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>

namespace tutti {

// Never 0, and different in every process: a child of fork() has a new one. Only the first call needs system calls.
std::uint64_t OwnProcessMark();

}  // namespace tutti
