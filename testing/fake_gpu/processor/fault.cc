#include "testing/fake_gpu/processor/fault.h"

#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace tutti::fake_gpu {

void PrintFault(const char* what, const void* address) {
  dprintf(STDERR_FILENO, "fake GPU: %s %p\n", what, address);
  constexpr int kMostFrames = 64;
  std::array<void*, kMostFrames> frames{};
  backtrace_symbols_fd(frames.data(), backtrace(frames.data(), kMostFrames), STDERR_FILENO);
}

}  // namespace tutti::fake_gpu
