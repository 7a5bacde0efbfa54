// The fixture for tests of the fake GPU at its strictest (README.md): kernels apart, late work, little room.
#pragma once

#include <string>

#include "testing/fake_gpu/tests/driver_fixture.h"

namespace tutti::fake_gpu {

inline constexpr unsigned kBlockThreads = 256;
inline constexpr unsigned kRoom = 8;         // blocks of that size that a device of four multiprocessors holds
inline constexpr unsigned kHostThreads = 2;  // that run a block
inline constexpr unsigned kArrivals = kRoom * kHostThreads;
inline constexpr std::size_t MiB = 1 << 20;

class Strict : public Driver {
 protected:
  static void SetUpTestSuite() {
    Driver::SetUpTestSuite();
    setenv("TUTTI_FAKE_GPU_THREADS", std::to_string(kHostThreads).c_str(), 1);
    setenv("TUTTI_FAKE_GPU_SMS", "4", 1);
    setenv("TUTTI_FAKE_GPU_APART", "1", 1);
    setenv("TUTTI_FAKE_GPU_LATE_US", "2000", 1);
    setenv("TUTTI_FAKE_GPU_ALLOCATIONS_WAIT", "1", 1);
    setenv("TUTTI_FAKE_GPU_CONTEXT_MS", "20", 1);
    setenv("TUTTI_FAKE_GPU_MEMORY_MB", "16", 1);
    setenv("TUTTI_FAKE_GPU_PINNED_MB", "4", 1);
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
  // A number that kernels and the host share.
  struct Pinned {
    Pinned() { EXPECT_EQ(cuMemHostAlloc(reinterpret_cast<void**>(&value), sizeof *value, 0), CUDA_SUCCESS); }
    ~Pinned() { EXPECT_EQ(cuMemFreeHost(value), CUDA_SUCCESS); }
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    std::uint32_t* value = nullptr;
  };
};

}  // namespace tutti::fake_gpu
