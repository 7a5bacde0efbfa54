// Tells this process from those that forked it.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>

namespace tutti {

// Never 0, and of no other process: a child of fork() has a new one. Costs no system call after the first.
std::uint64_t OwnProcessMark();

}  // namespace tutti
