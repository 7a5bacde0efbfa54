#include "testing/fake_cuda/environment.h"

#include <cstdlib>

namespace tutti::standin {
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
      .devices = Number("TUTTI_STANDIN_DEVICES", 1),
      .multiprocessors = Number("TUTTI_STANDIN_SMS", 64),
      .peers = Number("TUTTI_STANDIN_PEERS", 1) != 0,
      .nvlink = Number("TUTTI_STANDIN_NVLINK", 1) != 0,
      .multicast = Number("TUTTI_STANDIN_MULTICAST", 0) != 0,
      .driver_version = Number("TUTTI_STANDIN_DRIVER", 13000),
      .capability = Number("TUTTI_STANDIN_CAPABILITY", 90),
      .block_threads = Number("TUTTI_STANDIN_THREADS", 1),
      .synchronous = Number("TUTTI_STANDIN_SYNC", 0) != 0,
      .apart = Number("TUTTI_STANDIN_APART", 0) != 0,
      .late_us = Number("TUTTI_STANDIN_LATE_US", 0),
      .allocations_wait = Number("TUTTI_STANDIN_ALLOCATIONS_WAIT", 0) != 0,
      .busy = Number("TUTTI_STANDIN_BUSY", 0) != 0,
      .context_ms = Number("TUTTI_STANDIN_CONTEXT_MS", 0),
      .memory_bytes = Megabytes("TUTTI_STANDIN_MEMORY_MB"),
      .pinned_bytes = Megabytes("TUTTI_STANDIN_PINNED_MB"),
      .imports = Number("TUTTI_STANDIN_IMPORTS", 4096),
  };
  return environment;
}

}  // namespace tutti::standin
