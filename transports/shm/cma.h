// Cross-memory attach: one process reads another's memory in a system call, without its help.
//
// Thread-safety: functions without state.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace tutti::shm {

// Copies `bytes` from `address` in process `pid`. False if the kernel refuses or the process is gone. A process whose first
// thread has ended is read through another of its threads.
bool ReadProcess(pid_t pid, std::uint64_t address, void* destination, std::size_t bytes);

// Whether this system lets one of a user's processes read another one that is not its child, as ranks are to each
// other. Forks a process that tries.
bool MayReadProcesses();

}  // namespace tutti::shm
