// Streams that share a hardware queue of little depth, and cooperative grids that run one after the other.
#include <atomic>
#include <chrono>
#include <thread>

#include "testing/fake_gpu/tests/limits_fixture.h"

namespace tutti::fake_gpu {
namespace {

constexpr auto kLong = std::chrono::milliseconds(20);  // for work that may begin to have begun

class Queues : public Limits {
 protected:
  void SetUp() override {
    Limits::SetUp();
    for (CUstream* stream : {&first_, &second_, &third_}) *stream = NewStream();
    pointer_ = Allocate(4);
  }
  void TearDown() override {
    for (CUstream stream : {first_, second_, third_}) EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(pointer_), CUDA_SUCCESS);
    Limits::TearDown();
  }

  CUstream first_ = nullptr, second_ = nullptr, third_ = nullptr;
  CUdeviceptr pointer_ = 0;
};

TEST_F(Queues, WorkBesideAKernelThatRunsBegins) {
  Gate gate(first_);
  EXPECT_EQ(cuMemsetD32Async(pointer_, 1, 1, second_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(second_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(first_), CUDA_ERROR_NOT_READY);
  gate.Open();
  EXPECT_EQ(cuStreamSynchronize(first_), CUDA_SUCCESS);
}

TEST_F(Queues, WorkBehindOneThatWaitsDoesNotBegin) {
  const auto event = NewEvent();
  Gate gate(first_);
  EXPECT_EQ(cuEventRecord(event, first_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32Async(pointer_, 1, 1, third_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(third_), CUDA_SUCCESS) << "a recorded event holds up nothing";
  EXPECT_EQ(cuStreamWaitEvent(second_, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32Async(pointer_, 1, 1, third_), CUDA_SUCCESS);  // depends on neither
  std::this_thread::sleep_for(kLong);
  EXPECT_EQ(cuStreamQuery(third_), CUDA_ERROR_NOT_READY);
  gate.Open();
  EXPECT_EQ(cuStreamSynchronize(third_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
}

TEST_F(Queues, OtherDevicesHaveTheirOwn) {
  Gate gate(first_);
  EXPECT_EQ(cuMemsetD32Async(pointer_, 1, 1, first_), CUDA_SUCCESS);  // waits at the head
  CUcontext other = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent(other), CUDA_SUCCESS);
  const auto stream = NewStream();
  EXPECT_EQ(cuMemsetD32Async(pointer_, 1, 1, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPopCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
  gate.Open();
}

TEST_F(Queues, CallsWaitForRoomInTheirStream) {
  Gate gate(first_);
  for (int i = 1; i < kQueueDepth; ++i) EXPECT_EQ(cuMemsetD32Async(pointer_, 1, 1, first_), CUDA_SUCCESS);
  std::atomic<bool> returned{false};
  std::thread caller([&] {
    EXPECT_EQ(cuCtxSetCurrent(context()), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD32Async(pointer_, 1, 1, first_), CUDA_SUCCESS);
    returned = true;
  });
  std::this_thread::sleep_for(kLong);
  EXPECT_FALSE(returned);
  gate.Open();
  caller.join();
}

TEST_F(Queues, CooperativeGridsRunOneAfterTheOther) {
  std::uint32_t here = 0, other = 0;
  ASSERT_EQ(LaunchTogether("meeting", {&here, 2}, first_, 1, 1), CUDA_SUCCESS);
  while (std::atomic_ref(here).load() == 0) std::this_thread::yield();
  ASSERT_EQ(Launch("meeting", Meeting{&other, 1}, third_, 1, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(third_), CUDA_SUCCESS) << "it is not cooperative";
  ASSERT_EQ(LaunchTogether("meeting", {&other, 2}, second_, 1, 1), CUDA_SUCCESS);
  std::this_thread::sleep_for(kLong);
  EXPECT_EQ(std::atomic_ref(other).load(), 1U);
  std::atomic_ref(here).fetch_add(1);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(other, 2U);
}

}  // namespace
}  // namespace tutti::fake_gpu
