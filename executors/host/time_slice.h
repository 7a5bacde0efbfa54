// The time slice that the scheduler gives the calling thread.
//
// Thread-safety: all functions affect or read the calling thread alone.
#pragma once

#include <chrono>

namespace tutti::host {

// Asks for slices of `slice`, unless the thread has shorter ones or a real-time policy. Its share of the processor stays
// the same, but after giving the core up it gets it back sooner. The kernel grants 0.1 to 100 ms (Linux 6.12 and later,
// sched_setattr(2)); an older one changes nothing. False: the thread keeps what it had.
bool AskForSlices(std::chrono::microseconds slice);

// The slice that the thread has asked for; 0 if the kernel does not tell.
std::chrono::microseconds SliceOfThread();

}  // namespace tutti::host
