#include "testing/fake_gpu/environment.h"

#include <cstdlib>
#include <numeric>

namespace tutti::fake_gpu {
namespace {

int Number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::atoi(text);
}

std::size_t Megabytes(const char* name, int otherwise = 64 << 10) {
  return static_cast<std::size_t>(Number(name, otherwise)) << 20;
}

std::vector<int> Listed(int devices) {
  std::vector<int> visible;
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    visible.resize(static_cast<std::size_t>(devices));
    std::iota(visible.begin(), visible.end(), 0);
    return visible;
  }
  for (char* end = nullptr;; text = end + 1) {
    const long number = std::strtol(text, &end, 10);
    if (end == text || number < 0 || number >= devices) return visible;
    visible.push_back(static_cast<int>(number));
    if (*end != ',') return visible;
  }
}

std::vector<int> VisibleOf(int devices, bool mig) {
  auto visible = Listed(devices);
  if (mig && visible.size() > 1) visible.resize(1);
  return visible;
}

}  // namespace

const Environment& TheEnvironment() {
  constexpr const char* kMulticastLeast = "TUTTI_FAKE_GPU_MULTICAST_LEAST_MB";
  constexpr int kUsualMulticastLeast = 2;
  constexpr int kMultiprocessors = 64, kMultiprocessorsOfInstance = 16;
  const bool mig = Number("TUTTI_FAKE_GPU_MIG", 0) != 0;
  static const Environment environment{
      .machine_devices = Number("TUTTI_FAKE_GPU_DEVICES", 1),
      .visible = VisibleOf(Number("TUTTI_FAKE_GPU_DEVICES", 1), mig),
      .mig = mig,
      .multiprocessors = Number("TUTTI_FAKE_GPU_SMS", mig ? kMultiprocessorsOfInstance : kMultiprocessors),
      .peers = !mig && Number("TUTTI_FAKE_GPU_PEERS", 1) != 0,
      .nvlink = Number("TUTTI_FAKE_GPU_NVLINK", 1) != 0,
      .multicast = !mig && Number("TUTTI_FAKE_GPU_MULTICAST", 0) != 0,
      .multicast_least = Megabytes(kMulticastLeast, kUsualMulticastLeast),
      .multicast_best = Megabytes("TUTTI_FAKE_GPU_MULTICAST_BEST_MB", Number(kMulticastLeast, kUsualMulticastLeast)),
      .multicast_objects = Number("TUTTI_FAKE_GPU_MULTICAST_OBJECTS", 1024),
      .multicast_bytes = Megabytes("TUTTI_FAKE_GPU_MULTICAST_MB"),
      .dma_buf = static_cast<Environment::DmaBuf>(Number("TUTTI_FAKE_GPU_DMA_BUF", 1)),
      .rdma_order = Number("TUTTI_FAKE_GPU_RDMA_ORDER", 1) != 0,
      .driver_version = Number("TUTTI_FAKE_GPU_DRIVER", 13000),
      .capability = Number("TUTTI_FAKE_GPU_CAPABILITY", 90),
      .block_threads = Number("TUTTI_FAKE_GPU_THREADS", 1),
      .synchronous = Number("TUTTI_FAKE_GPU_SYNC", 0) != 0,
      .apart = Number("TUTTI_FAKE_GPU_APART", 0) != 0,
      .late_us = Number("TUTTI_FAKE_GPU_LATE_US", 0),
      .allocations_wait = Number("TUTTI_FAKE_GPU_ALLOCATIONS_WAIT", 0) != 0,
      .queues = Number("TUTTI_FAKE_GPU_QUEUES", 0),
      .queue_depth = Number("TUTTI_FAKE_GPU_QUEUE_DEPTH", 0),
      .cooperative_alone = Number("TUTTI_FAKE_GPU_COOPERATIVE_ALONE", 0) != 0,
      .busy = Number("TUTTI_FAKE_GPU_BUSY", 0) != 0,
      .context_ms = Number("TUTTI_FAKE_GPU_CONTEXT_MS", 0),
      .memory_bytes = Megabytes("TUTTI_FAKE_GPU_MEMORY_MB"),
      .pinned_bytes = Megabytes("TUTTI_FAKE_GPU_PINNED_MB"),
      .imports = Number("TUTTI_FAKE_GPU_IMPORTS", 4096),
  };
  return environment;
}

}  // namespace tutti::fake_gpu
