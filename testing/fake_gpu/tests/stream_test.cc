#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "testing/fake_gpu/tests/driver_fixture.h"

namespace tutti::fake_gpu {
namespace {

TEST_F(Driver, AHostKernelRunsInAllThreadsOfAllBlocks) {
  constexpr unsigned kBlocks = 5;
  std::vector<std::uint32_t> values(1000);
  std::iota(values.begin(), values.end(), 1U);
  std::vector<std::uint64_t> per_block(kBlocks);
  std::uint64_t total = 0;
  const auto stream = NewStream();
  const Sum sum{values.data(), static_cast<std::uint32_t>(values.size()), per_block.data(), &total};
  EXPECT_EQ(Launch("sum", sum, stream, kBlocks, 128), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(total, 500500U);
  std::uint32_t here = 0;  // ends only if all run at the same time
  EXPECT_EQ(Launch("meeting", Meeting{&here, kBlocks * kThreads}, stream, kBlocks, 128), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(here, kBlocks * kThreads);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST_F(Driver, LaunchesThatARealDriverRefuses) {
  std::uint32_t here = 0;
  const Meeting meeting{&here, 1};
  EXPECT_EQ(Launch("meeting", meeting, nullptr, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Launch("meeting", meeting, nullptr, 1, 1025), CUDA_ERROR_INVALID_VALUE);
  const auto stream = NewStream();
  ASSERT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(Launch("meeting", meeting, stream, 1, 1), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, "anything"), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleGetFunction(&function, module, "nothing"), CUDA_ERROR_NOT_FOUND);
  ASSERT_EQ(cuModuleGetFunction(&function, module, "sum"), CUDA_SUCCESS);
  int blocks = 0;
  EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, 0), CUDA_SUCCESS);
  EXPECT_EQ(blocks, 2);  // by registers
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  EXPECT_EQ(cuFuncLoad(function), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Driver, KernelsOfDifferentStreamsMeet) {
  const auto one = NewStream();
  const auto other = NewStream();
  std::uint32_t here = 0;
  EXPECT_EQ(Launch("meeting", Meeting{&here, 4}, one, 2, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(one), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(Launch("meeting", Meeting{&here, 4}, other, 2, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(one), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(one), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(other), CUDA_SUCCESS);
}

TEST_F(Driver, EventsOrderStreams) {
  const auto first = NewStream();
  const auto second = NewStream();
  const auto event = NewEvent();
  const auto end = NewEvent();
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);  // never recorded
  const auto pointer = Allocate(4);
  Gate gate(first);
  EXPECT_EQ(cuMemsetD32Async(pointer, 1, 1, first), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(event, first), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitEvent(second, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32Async(pointer, 2, 1, second), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(end, second), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuEventQuery(end), CUDA_ERROR_NOT_READY);
  gate.Open();
  EXPECT_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
  EXPECT_EQ(*As<unsigned>(pointer), 2U);
  float milliseconds = -1;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, event, end), CUDA_SUCCESS);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(event, first), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventDestroy(end), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(first), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(second), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
}

TEST_F(Driver, TheNullStreamAndBlockingStreamsWaitForEachOther) {
  const auto blocking = NewStream(CU_STREAM_DEFAULT);
  const auto apart = NewStream();
  const auto pointer = Allocate(8);
  Gate gate(blocking);
  EXPECT_EQ(cuMemsetD32Async(pointer, 1, 1, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32Async(pointer, 2, 1, apart), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(apart), CUDA_SUCCESS);
  EXPECT_EQ(*As<unsigned>(pointer), 2U);
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  gate.Open();
  EXPECT_EQ(cuStreamSynchronize(CU_STREAM_LEGACY), CUDA_SUCCESS);
  EXPECT_EQ(*As<unsigned>(pointer), 1U);
  Gate second(nullptr);
  EXPECT_EQ(cuMemsetD32Async(pointer, 3, 1, blocking), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32Async(pointer + 4, 4, 1, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
  second.Open();
  EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);  // waits for all of them
  EXPECT_EQ(cuStreamQuery(blocking), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(blocking), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(apart), CUDA_SUCCESS);
}

TEST_F(Driver, AStreamIsItsDevices) {
  CUcontext other = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent(other), CUDA_SUCCESS);
  const auto stream = NewStream();
  ASSERT_EQ(cuCtxPopCurrent(nullptr), CUDA_SUCCESS);
  CUcontext context = nullptr;
  EXPECT_EQ(cuStreamGetCtx(stream, &context), CUDA_SUCCESS);
  EXPECT_EQ(context, other);
  std::uint32_t here = 0;
  EXPECT_EQ(Launch("meeting", Meeting{&here, 1}, stream, 1, 1), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

TEST_F(Driver, HostFunctionsRunInTurnAndMustNotCallTheDriver) {
  const auto stream = NewStream();
  CUresult inside = CUDA_SUCCESS;
  Gate gate(stream);
  const CUhostFn function = [](void* result) { *static_cast<CUresult*>(result) = cuCtxSynchronize(); };
  EXPECT_EQ(cuLaunchHostFunc(stream, function, &inside), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  gate.Open();
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(inside, CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tutti::fake_gpu
