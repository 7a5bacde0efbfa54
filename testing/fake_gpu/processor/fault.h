// The report of an access that the fake GPU forbids.
//
// Thread-safety: all of it.
#pragma once

namespace tutti::fake_gpu {

// Prints the calling thread's stack and a fault's address to stderr. For signal handlers.
void PrintFault(const char* what, const void* address);

}  // namespace tutti::fake_gpu
