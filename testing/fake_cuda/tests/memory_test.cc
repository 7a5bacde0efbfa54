#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "testing/fake_cuda/tests/driver_fixture.h"

namespace tutti::standin {
namespace {

template <class T>
T AttributeOf(CUpointer_attribute attribute, CUdeviceptr pointer) {
  T value{};
  EXPECT_EQ(cuPointerGetAttribute(&value, attribute, pointer), CUDA_SUCCESS);
  return value;
}

TEST_F(Driver, PointersTellWhatTheyPointTo) {
  const auto pointer = Allocate(1000);
  EXPECT_EQ(pointer % 256, 0U);
  EXPECT_EQ(AttributeOf<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer + 999), CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(AttributeOf<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer), 0);
  EXPECT_EQ(AttributeOf<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer + 10), pointer);
  EXPECT_EQ(AttributeOf<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer + 10), 1000U);
  const auto id = AttributeOf<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer);
  void* pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&pinned, 64, 0), CUDA_SUCCESS);
  const auto pinned_pointer = reinterpret_cast<CUdeviceptr>(pinned);
  EXPECT_EQ(AttributeOf<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pinned_pointer), CU_MEMORYTYPE_HOST);
  EXPECT_EQ(AttributeOf<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, pinned_pointer), pinned);
  EXPECT_NE(AttributeOf<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, pinned_pointer), id);
  ASSERT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
  unsigned type = 0;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Driver, OrdinaryMemoryIsUnknownUntilRegistered) {
  std::vector<char> memory(100);
  const auto pointer = reinterpret_cast<CUdeviceptr>(memory.data());
  unsigned type = 7;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer), CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* value = &type;
  EXPECT_EQ(cuPointerGetAttributes(1, &attribute, &value, pointer), CUDA_SUCCESS);
  EXPECT_EQ(type, 0U);
  ASSERT_EQ(cuMemHostRegister(memory.data(), memory.size(), 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostRegister(memory.data() + 50, 10, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(AttributeOf<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer), CU_MEMORYTYPE_HOST);
  EXPECT_EQ(cuMemHostUnregister(memory.data()), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostUnregister(memory.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_F(Driver, CopiesGoBothWaysAndStayInside) {
  std::vector<int> source(100), back(100);
  std::iota(source.begin(), source.end(), 1);
  const std::size_t bytes = source.size() * sizeof(int);
  const auto pointer = Allocate(bytes);
  const auto other = Allocate(bytes);
  EXPECT_NE(*As<unsigned char>(pointer), 0);  // fresh memory is not zero
  const auto stream = NewStream();
  EXPECT_EQ(cuMemcpyHtoDAsync(pointer, source.data(), bytes, stream), CUDA_SUCCESS);
  std::fill(source.begin(), source.end(), 0);  // pageable: the call has already read it
  EXPECT_EQ(cuMemcpyDtoDAsync(other, pointer, bytes, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoHAsync(back.data(), other, bytes, stream), CUDA_SUCCESS);
  EXPECT_EQ(back[99], 100);
  EXPECT_EQ(cuMemcpyDtoH(back.data(), pointer, bytes + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(back.data()), source.data(), 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32Async(pointer, 7, source.size(), stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32Async(pointer, 7, source.size() + 1, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(As<int>(pointer)[99], 7);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(other), CUDA_SUCCESS);
}

TEST_F(Driver, MemoryRunsOut) {
  CUdeviceptr pointer = 0;
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc(&pointer, free + 1), CUDA_ERROR_OUT_OF_MEMORY);
}

constexpr const char* kPipes = "TUTTI_STANDIN_TEST_PIPES";  // a child's: to read from and to write to

void OpenDeviceZero() {
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  CUcontext context = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
}

// The other process of the test below.
TEST(Ipc, DISABLED_Child) {
  std::istringstream pipes(std::getenv(kPipes));
  int in = -1;
  int out = -1;
  pipes >> in >> out;
  OpenDeviceZero();
  CUipcMemHandle handle{};
  ASSERT_EQ(read(in, &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  CUdeviceptr pointer = 0;
  CUdeviceptr again = 0;
  ASSERT_EQ(cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_SUCCESS);
  ASSERT_EQ(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_SUCCESS);
  EXPECT_EQ(pointer, again);
  EXPECT_EQ(AttributeOf<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer), CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(As<int>(pointer)[10], 42);
  As<int>(pointer)[11] = 43;
  EXPECT_EQ(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcCloseMemHandle(pointer), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcCloseMemHandle(pointer), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcCloseMemHandle(pointer), CUDA_ERROR_INVALID_VALUE);
  char freed = 0;
  ASSERT_EQ(write(out, "x", 1), 1);
  ASSERT_EQ(read(in, &freed, 1), 1);
  EXPECT_NE(cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_SUCCESS);
}

TEST(Ipc, AnotherProcessSeesTheSameMemory) {
  std::array<int, 2> to_child{}, to_parent{};
  ASSERT_EQ(pipe(to_child.data()), 0);
  ASSERT_EQ(pipe(to_parent.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    setenv(kPipes, (std::to_string(to_child[0]) + " " + std::to_string(to_parent[1])).c_str(), 1);
    close(to_child[1]);
    execl("/proc/self/exe", "child", "--gtest_filter=Ipc.DISABLED_Child", "--gtest_also_run_disabled_tests", nullptr);
    _exit(127);
  }
  close(to_child[0]);
  close(to_parent[1]);
  OpenDeviceZero();
  CUdeviceptr pointer = 0;
  ASSERT_EQ(cuMemAlloc(&pointer, 4096), CUDA_SUCCESS);
  As<int>(pointer)[10] = 42;
  CUipcMemHandle handle{};
  ASSERT_EQ(cuIpcGetMemHandle(&handle, pointer + 8), CUDA_SUCCESS);
  CUdeviceptr own = 0;
  EXPECT_EQ(cuIpcOpenMemHandle(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(write(to_child[1], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  char done = 0;
  EXPECT_EQ(read(to_parent[0], &done, 1), 1);
  EXPECT_EQ(As<int>(pointer)[11], 43);
  EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
  EXPECT_EQ(write(to_child[1], "x", 1), 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  close(to_child[1]);
  close(to_parent[0]);
}

TEST_F(Driver, AForkedChildMustNotUseIt) {
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    _exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tutti::standin
