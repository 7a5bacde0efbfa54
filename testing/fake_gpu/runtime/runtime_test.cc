// The runtime as an nvcc-compiled program uses it.
#include <cuda.h>

#include <thread>
#include <vector>

#include "testing/fake_gpu/runtime/runtime_fixture.h"

namespace tutti::fake_gpu {
namespace {

TEST_F(Runtime, MemoryIsTheDrivers) {
  void* pointer = nullptr;
  ASSERT_EQ(cudaMalloc(&pointer, 400), cudaSuccess);
  int device = -1;
  EXPECT_EQ(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, reinterpret_cast<CUdeviceptr>(pointer)),
            CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  std::vector<int> values(100);
  EXPECT_EQ(cudaMemset(pointer, 1, 400), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(values.data(), pointer, 400, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(values[99], 0x01010101);
  cudaPointerAttributes attributes{};
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, pointer), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, values.data()), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  EXPECT_EQ(cudaFree(pointer), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Runtime, EveryThreadHasItsDevice) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
  std::thread([] {
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0);
  }).join();
  cudaDeviceProp properties{};
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 1), cudaSuccess);
  EXPECT_EQ(properties.multiProcessorCount, 64);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(Runtime, AKernelIsLaunchedByItsRegisteredName) {
  static const char host = 0;
  static const char unknown = 0;
  RegisterKernel(&host, "_ZN12_GLOBAL__N_114verifyPreparedIjEEvPKT_S3_ljPl");
  std::vector<unsigned> results{1, 2, 3};
  const std::vector<unsigned> expected{1, 5, 3};
  const unsigned* first = results.data();
  const unsigned* second = expected.data();
  long count = 3;
  unsigned tolerance = 0;
  long sum = 10;
  long* wrong = &sum;
  void* arguments[] = {&first, &second, &count, &tolerance, &wrong};
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaLaunchKernel(&host, dim3(1), dim3(512), arguments, 0, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(sum, 11);
  EXPECT_EQ(cudaLaunchKernel(&unknown, dim3(1), dim3(512), arguments, 0, stream), cudaErrorInvalidDeviceFunction);

  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(cudaLaunchKernel(&host, dim3(1), dim3(512), arguments, 0, stream), cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(sum, 14);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
}  // namespace tutti::fake_gpu
