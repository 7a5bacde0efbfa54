// The fixture for tests of the fake GPU's driver.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "testing/fake_gpu/tests/dummy_kernels.h"

namespace tutti::fake_gpu {

inline constexpr int kDevices = 2;
inline constexpr unsigned kThreads = 3;  // that run a block

// A thread with device 0 current.
class Driver : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("TUTTI_FAKE_GPU_DEVICES", std::to_string(kDevices).c_str(), 1);
    setenv("TUTTI_FAKE_GPU_THREADS", std::to_string(kThreads).c_str(), 1);
  }
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    Function("meeting");  // loads the module, which a capture forbids
  }
  void TearDown() override { EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS); }

  CUcontext context() const { return context_; }
  static CUdeviceptr Allocate(std::size_t bytes) {
    CUdeviceptr pointer = 0;
    EXPECT_EQ(cuMemAlloc(&pointer, bytes), CUDA_SUCCESS);
    return pointer;
  }
  static CUstream NewStream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, flags), CUDA_SUCCESS);
    return stream;
  }
  static CUevent NewEvent(unsigned flags = 0) {
    CUevent event = nullptr;
    EXPECT_EQ(cuEventCreate(&event, flags), CUDA_SUCCESS);
    return event;
  }
  static CUfunction Function(const char* name) {
    static CUmodule module = [] {
      CUmodule loaded = nullptr;
      EXPECT_EQ(cuModuleLoadData(&loaded, "anything"), CUDA_SUCCESS);
      return loaded;
    }();
    CUfunction function = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&function, module, name), CUDA_SUCCESS);
    return function;
  }
  template <class Parameter>
  static CUresult Launch(const char* name, Parameter parameter, CUstream stream, unsigned blocks, unsigned threads) {
    void* parameters[] = {&parameter};
    return cuLaunchKernel(Function(name), blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
  }
  static CUresult LaunchTogether(const char* name, Meeting parameter, CUstream stream, unsigned blocks,
                                 unsigned threads) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    const CUlaunchConfig config{blocks, 1, 1, threads, 1, 1, 0, stream, &attribute, 1};
    void* parameters[] = {&parameter};
    return cuLaunchKernelEx(&config, Function(name), parameters, nullptr);
  }

  // A kernel that runs until `Open`, so that a test can observe unfinished work.
  class Gate {
   public:
    explicit Gate(CUstream stream) { EXPECT_EQ(Launch("meeting", Meeting{&here_, 2}, stream, 1, 1), CUDA_SUCCESS); }
    void Open() { std::atomic_ref(here_).fetch_add(1); }

   private:
    std::uint32_t here_ = 0;
  };

 private:
  CUcontext context_ = nullptr;
};

template <class T>
T* As(CUdeviceptr pointer) {
  return reinterpret_cast<T*>(pointer);  // NOLINT: here a device's memory is the host's
}

}  // namespace tutti::fake_gpu
