#include <array>
#include <string_view>
#include <thread>

#include "testing/fake_gpu/tests/driver_fixture.h"

namespace tutti::fake_gpu {
namespace {

TEST_F(Driver, DevicesAreAsTheEnvironmentSays) {
  int count = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, kDevices);
  int reach = -1;
  EXPECT_EQ(cuDeviceCanAccessPeer(&reach, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(reach, 1);
  for (const auto attribute :
       {CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED}) {
    int joined = -1;
    EXPECT_EQ(cuDeviceGetP2PAttribute(&joined, attribute, 0, 1), CUDA_SUCCESS);
    EXPECT_EQ(joined, 1);
    EXPECT_EQ(cuDeviceGetP2PAttribute(&joined, attribute, 1, 1), CUDA_ERROR_INVALID_DEVICE);
  }
  int processors = 0;
  EXPECT_EQ(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1), CUDA_SUCCESS);
  EXPECT_EQ(processors, 64);
  EXPECT_EQ(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 2), CUDA_ERROR_INVALID_DEVICE);
  std::array<char, 16> first{}, second{};
  EXPECT_EQ(cuDeviceGetPCIBusId(first.data(), first.size(), 0), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceGetPCIBusId(second.data(), second.size(), 1), CUDA_SUCCESS);
  EXPECT_STREQ(first.data(), "0000:10:00.0");
  EXPECT_STRNE(first.data(), second.data());
}

TEST_F(Driver, ContextsAreAThreadsOwn) {
  std::thread([] {
    CUdevice device = -1;
    EXPECT_EQ(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    CUcontext context = nullptr;
    ASSERT_EQ(cuCtxPushCurrent(context), CUDA_ERROR_INVALID_CONTEXT);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxPushCurrent(context), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
    EXPECT_EQ(device, 1);
    ASSERT_EQ(cuCtxPopCurrent(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxPopCurrent(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  }).join();
}

TEST_F(Driver, AContextIsActiveWhileItIsRetained) {
  unsigned flags = 1;
  int active = -1;
  EXPECT_EQ(cuDevicePrimaryCtxGetState(1, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  CUcontext context = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(1, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(kDevices, &flags, &active), CUDA_ERROR_INVALID_DEVICE);
}

// Static destructors of programs do so.
TEST_F(Driver, AThreadMayCallItWhenItsObjectsAreGone) {
  static CUdevice last;
  struct Late {
    ~Late() { cuCtxGetDevice(&last); }
    bool made = true;
  };
  last = -1;
  std::thread([] {
    thread_local const Late late;  // made before the driver's objects of this thread, so it is destroyed after them
    EXPECT_TRUE(late.made);
    CUcontext context = nullptr;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  }).join();
  EXPECT_EQ(last, 1);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

TEST_F(Driver, PeerAccessIsEnabledOnce) {
  CUcontext other = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxEnablePeerAccess(other, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

TEST_F(Driver, CodesHaveNames) {
  const char* text = nullptr;
  EXPECT_EQ(cuGetErrorName(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION");
  EXPECT_EQ(cuGetErrorString(static_cast<CUresult>(998), &text), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(text, nullptr);
}

TEST_F(Driver, EntryPointsAreFoundByName) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult found{};
  EXPECT_EQ(cuGetProcAddress("cuMemAlloc", &function, 13000, 0, &found), CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(&cuMemAlloc));
  EXPECT_EQ(cuGetProcAddress("cuNothing", &function, 13000, 0, &found), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

}  // namespace
}  // namespace tutti::fake_gpu
