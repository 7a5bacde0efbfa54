#include "testing/fake_gpu/environment.h"

#include <cstdlib>

namespace tutti::fake_gpu {
namespace {

int Number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::atoi(text);
}

std::size_t Megabytes(const char* name) {
  constexpr int kOtherwise = 64 << 10;
  return static_cast<std::size_t>(Number(name, kOtherwise)) << 20;
}

}  // namespace

const Environment& TheEnvironment() {
  static const Environment environment{
      .devices = Number("TUTTI_FAKE_GPU_DEVICES", 1),
      .multiprocessors = Number("TUTTI_FAKE_GPU_SMS", 64),
      .peers = Number("TUTTI_FAKE_GPU_PEERS", 1) != 0,
      .nvlink = Number("TUTTI_FAKE_GPU_NVLINK", 1) != 0,
      .multicast = Number("TUTTI_FAKE_GPU_MULTICAST", 0) != 0,
      .driver_version = Number("TUTTI_FAKE_GPU_DRIVER", 13000),
      .capability = Number("TUTTI_FAKE_GPU_CAPABILITY", 90),
      .block_threads = Number("TUTTI_FAKE_GPU_THREADS", 1),
      .synchronous = Number("TUTTI_FAKE_GPU_SYNC", 0) != 0,
      .apart = Number("TUTTI_FAKE_GPU_APART", 0) != 0,
      .late_us = Number("TUTTI_FAKE_GPU_LATE_US", 0),
      .allocations_wait = Number("TUTTI_FAKE_GPU_ALLOCATIONS_WAIT", 0) != 0,
      .busy = Number("TUTTI_FAKE_GPU_BUSY", 0) != 0,
      .context_ms = Number("TUTTI_FAKE_GPU_CONTEXT_MS", 0),
      .memory_bytes = Megabytes("TUTTI_FAKE_GPU_MEMORY_MB"),
      .pinned_bytes = Megabytes("TUTTI_FAKE_GPU_PINNED_MB"),
      .imports = Number("TUTTI_FAKE_GPU_IMPORTS", 4096),
  };
  return environment;
}

}  // namespace tutti::fake_gpu
