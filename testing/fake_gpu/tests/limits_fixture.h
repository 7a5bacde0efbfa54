// The fixture for tests of the fake GPU whose hardware has narrow limits (README.md).
#pragma once

#include <cstdlib>
#include <string>

#include "testing/fake_gpu/tests/driver_fixture.h"

namespace tutti::fake_gpu {

inline constexpr int kQueueDepth = 4;
inline constexpr std::size_t MiB = std::size_t{1} << 20;
inline constexpr std::size_t kMulticastLeast = 4 * MiB, kMulticastBest = 8 * MiB;
inline constexpr std::size_t kMulticastMost = 16 * MiB;
inline constexpr int kMulticastObjects = 3;

class Limits : public Driver {
 protected:
  static void SetUpTestSuite() {
    Driver::SetUpTestSuite();
    const auto set = [](const char* name, std::size_t value) { setenv(name, std::to_string(value).c_str(), 1); };
    set("TUTTI_FAKE_GPU_QUEUES", 1);
    set("TUTTI_FAKE_GPU_QUEUE_DEPTH", kQueueDepth);
    set("TUTTI_FAKE_GPU_COOPERATIVE_ALONE", 1);
    set("TUTTI_FAKE_GPU_MULTICAST", 1);
    set("TUTTI_FAKE_GPU_MULTICAST_LEAST_MB", kMulticastLeast / MiB);
    set("TUTTI_FAKE_GPU_MULTICAST_BEST_MB", kMulticastBest / MiB);
    set("TUTTI_FAKE_GPU_MULTICAST_MB", kMulticastMost / MiB);
    set("TUTTI_FAKE_GPU_MULTICAST_OBJECTS", kMulticastObjects);
  }
};

}  // namespace tutti::fake_gpu
