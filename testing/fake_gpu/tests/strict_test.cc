// The fake GPU at its strictest (README.md): kernels apart, late work, little room.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "testing/fake_gpu/tests/strict_fixture.h"

namespace tutti::fake_gpu {
namespace {

using StrictDeathTest = Strict;

TEST_F(Strict, KernelsReachTheDriversMemory) {
  std::vector<std::uint32_t> values(1000);
  std::iota(values.begin(), values.end(), 0);
  const std::size_t bytes = values.size() * sizeof(values[0]);
  const auto device = Allocate(bytes + (1 + 2) * sizeof(std::uint64_t));
  ASSERT_EQ(cuMemcpyHtoD(device, values.data(), bytes), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8(device + bytes, 0, 3 * sizeof(std::uint64_t)), CUDA_SUCCESS);
  auto* const sums = As<std::uint64_t>(device + bytes);
  ASSERT_EQ(Launch("sum", Sum{As<std::uint32_t>(device), 1000, sums + 1, sums}, nullptr, 2, 64), CUDA_SUCCESS);
  std::uint64_t total = 0;
  ASSERT_EQ(cuMemcpyDtoH(&total, device + bytes, sizeof total), CUDA_SUCCESS);
  EXPECT_EQ(total, 999U * 1000 / 2);
  ASSERT_EQ(cuMemFree(device), CUDA_SUCCESS);

  CUdeviceptr managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  *As<std::uint32_t>(managed) = 0;
  const int file = memfd_create("registered", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 4096), 0);
  auto* const shared = static_cast<std::uint32_t*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ASSERT_EQ(cuMemHostRegister(shared, 4096, 0), CUDA_SUCCESS);
  const Pinned pinned;
  *pinned.value = 0;
  for (auto* here : {As<std::uint32_t>(managed), shared, pinned.value}) {
    ASSERT_EQ(Launch("meeting", Meeting{here, 1}, nullptr, 1, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(*here, 1U);  // of a block of one thread
  }
  EXPECT_EQ(cuMemHostUnregister(shared), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(managed), CUDA_SUCCESS);
  munmap(shared, 4096);
  close(file);
}

TEST_F(StrictDeathTest, HostCodeTouchesDeviceMemory) {
  const auto device = Allocate(64);
  EXPECT_DEATH(*As<std::uint32_t>(device) = 1, "host code touched memory of a device");
  EXPECT_EQ(cuMemFree(device), CUDA_SUCCESS);
}

// Its context is lost: no call works any more.
TEST_F(StrictDeathTest, AKernelTouchesHostMemory) {
  const auto touch = [] {
    std::uint32_t here = 0;
    Launch("meeting", Meeting{&here, 1}, nullptr, 1, 1);
    cuCtxSynchronize();
    CUdeviceptr pointer = 0;
    std::exit(cuMemAlloc(&pointer, 1) == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1);
  };
  EXPECT_EXIT(touch(), ::testing::ExitedWithCode(0), "a kernel touched what is no memory of its device");
}

// The null stream's work may be late, and another stream does not wait for it.
TEST_F(Strict, CopiesFromPageableMemoryAreLate) {
  const auto device = Allocate(sizeof(std::uint32_t));
  const auto stream = NewStream();
  int old = 0;
  for (std::uint32_t round = 1; round <= 300; ++round) {
    ASSERT_EQ(cuMemcpyHtoD(device, &round, sizeof round), CUDA_SUCCESS);
    std::uint32_t seen = 0;
    ASSERT_EQ(cuMemcpyDtoHAsync(&seen, device, sizeof seen, stream), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    old += seen != round ? 1 : 0;
    ASSERT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoH(&seen, device, sizeof seen), CUDA_SUCCESS);
    ASSERT_EQ(seen, round);
  }
  EXPECT_GT(old, 0);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(device), CUDA_SUCCESS);
}

TEST_F(Strict, BlocksWaitForRoom) {
  const auto one = NewStream(), other = NewStream();
  const Pinned first, second;
  *first.value = *second.value = 0;
  EXPECT_EQ(LaunchTogether("meeting", {first.value, 1}, one, kRoom + 1, kBlockThreads),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  ASSERT_EQ(LaunchTogether("meeting", {first.value, kArrivals + 1}, one, kRoom, kBlockThreads), CUDA_SUCCESS);
  while (std::atomic_ref(*first.value).load() < kArrivals) std::this_thread::yield();
  ASSERT_EQ(LaunchTogether("meeting", {second.value, 2 * kHostThreads}, other, 2, kBlockThreads), CUDA_SUCCESS);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(std::atomic_ref(*second.value).load(), 0U) << "the device is full";
  std::atomic_ref(*first.value).fetch_add(1);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  // A grid that does not fit runs in turns, unless it is cooperative.
  const std::uint32_t before = *second.value;
  ASSERT_EQ(Launch("meeting", Meeting{second.value, 0}, one, 3 * kRoom, kBlockThreads), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(*second.value, before + 3 * kArrivals);
  EXPECT_EQ(Launch("meeting", Meeting{second.value, 0}, one, 1, 1024), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(cuStreamDestroy(one), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(other), CUDA_SUCCESS);
}

TEST_F(Strict, AllocationsWaitForKernels) {
  const Pinned here;
  *here.value = 0;
  ASSERT_EQ(Launch("meeting", Meeting{here.value, kHostThreads + 1}, nullptr, 1, kBlockThreads), CUDA_SUCCESS);
  std::atomic<bool> opened{false};
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    opened = true;
    std::atomic_ref(*here.value).fetch_add(1);
  });
  const auto device = Allocate(64);
  EXPECT_TRUE(opened);
  opener.join();
  EXPECT_EQ(cuMemFree(device), CUDA_SUCCESS);
}

TEST_F(Strict, MemoryIsSmall) {
  CUdeviceptr pointer = 0;
  EXPECT_EQ(cuMemAlloc(&pointer, 17 * MiB), CUDA_ERROR_OUT_OF_MEMORY);
  void* pinned = nullptr;
  EXPECT_EQ(cuMemHostAlloc(&pinned, 5 * MiB, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

}  // namespace
}  // namespace tutti::fake_gpu
