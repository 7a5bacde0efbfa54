#include <array>
#include <vector>

#include "testing/fake_gpu/tests/limits_fixture.h"

namespace tutti::fake_gpu {
namespace {

// Devices 0 and 1 and the switch between them.
class Multicast : public Limits {
 protected:
  static CUmulticastObjectProp Properties(std::size_t bytes, unsigned devices = kDevices) {
    CUmulticastObjectProp properties{};
    properties.numDevices = devices;
    properties.size = bytes;
    properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return properties;
  }
  static CUmemGenericAllocationHandle Object(std::size_t bytes, bool with_devices = true) {
    CUmemGenericAllocationHandle object = 0;
    const auto properties = Properties(bytes);
    EXPECT_EQ(cuMulticastCreate(&object, &properties), CUDA_SUCCESS);
    for (int device = 0; device < kDevices && with_devices; ++device) {
      EXPECT_EQ(cuMulticastAddDevice(object, device), CUDA_SUCCESS);
    }
    return object;
  }
  static CUmemGenericAllocationHandle Memory(int device, std::size_t bytes) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    CUmemGenericAllocationHandle memory = 0;
    EXPECT_EQ(cuMemCreate(&memory, bytes, &properties, 0), CUDA_SUCCESS);
    return memory;
  }
  static CUresult Bind(CUmemGenericAllocationHandle object, CUmemGenericAllocationHandle memory, std::size_t bytes) {
    return cuMulticastBindMem(object, 0, memory, 0, bytes, 0);
  }
};

TEST_F(Multicast, SizesAreWhole) {
  const auto properties = Properties(kMulticastLeast);
  std::size_t granularity = 0;
  EXPECT_EQ(cuMulticastGetGranularity(&granularity, &properties, CU_MULTICAST_GRANULARITY_MINIMUM), CUDA_SUCCESS);
  EXPECT_EQ(granularity, kMulticastLeast);
  EXPECT_EQ(cuMulticastGetGranularity(&granularity, &properties, CU_MULTICAST_GRANULARITY_RECOMMENDED), CUDA_SUCCESS);
  EXPECT_EQ(granularity, kMulticastBest);
  CUmemGenericAllocationHandle object = 0;
  for (const std::size_t bytes : {std::size_t{0}, kMulticastLeast / 2, kMulticastLeast + 2 * MiB}) {
    const auto odd = Properties(bytes);
    EXPECT_EQ(cuMulticastCreate(&object, &odd), CUDA_ERROR_INVALID_VALUE) << bytes;
  }
  object = Object(2 * kMulticastLeast);
  const auto memory = Memory(0, 2 * kMulticastLeast);
  constexpr std::size_t kOdd = kMulticastLeast / 2;
  EXPECT_EQ(Bind(object, memory, kOdd), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMulticastBindMem(object, kOdd, memory, 0, kMulticastLeast, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMulticastBindMem(object, 0, memory, kOdd, kMulticastLeast, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Bind(object, memory, 3 * kMulticastLeast), CUDA_ERROR_INVALID_VALUE) << "longer than both";
  EXPECT_EQ(Bind(object, memory, 2 * kMulticastLeast), CUDA_SUCCESS);
  EXPECT_EQ(Bind(object, memory, 2 * kMulticastLeast), CUDA_ERROR_INVALID_VALUE) << "bound already";
  EXPECT_EQ(cuMemRelease(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(object), CUDA_SUCCESS);
}

TEST_F(Multicast, AllDevicesAreAddedOnceAndBeforeMemory) {
  const auto object = Object(kMulticastLeast, false);
  const auto memory = Memory(0, kMulticastLeast);
  EXPECT_EQ(cuMulticastAddDevice(object, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMulticastAddDevice(object, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Bind(object, memory, kMulticastLeast), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(cuMulticastAddDevice(object, 1), CUDA_SUCCESS);
  EXPECT_EQ(Bind(object, memory, kMulticastLeast), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(object), CUDA_SUCCESS);
}

TEST_F(Multicast, ObjectsRunOut) {
  std::vector<CUmemGenericAllocationHandle> objects;
  for (int i = 0; i < kMulticastObjects; ++i) objects.push_back(Object(kMulticastLeast));
  CUmemGenericAllocationHandle more = 0;
  const auto properties = Properties(kMulticastLeast);
  EXPECT_EQ(cuMulticastCreate(&more, &properties), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemRelease(objects.back()), CUDA_SUCCESS);
  objects.back() = Object(kMulticastLeast);
  for (const auto object : objects) EXPECT_EQ(cuMemRelease(object), CUDA_SUCCESS);
}

TEST_F(Multicast, RoomForBoundMemoryRunsOut) {
  const auto first = Object(kMulticastMost), second = Object(kMulticastLeast);
  const auto large = Memory(0, kMulticastMost), small = Memory(0, kMulticastLeast), other = Memory(1, kMulticastLeast);
  EXPECT_EQ(Bind(first, large, kMulticastMost), CUDA_SUCCESS);
  EXPECT_EQ(Bind(second, small, kMulticastLeast), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Bind(second, other, kMulticastLeast), CUDA_SUCCESS) << "of another device";
  EXPECT_EQ(cuMulticastUnbind(first, 0, 0, kMulticastMost), CUDA_SUCCESS);
  EXPECT_EQ(cuMulticastUnbind(first, 0, 0, kMulticastMost), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Bind(second, small, kMulticastLeast), CUDA_SUCCESS);
  for (const auto handle : {first, second, large, small, other}) EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(Multicast, OnlyDevicesThatWereAddedGetAccess) {
  const auto properties = Properties(kMulticastLeast, 1);
  CUmemGenericAllocationHandle object = 0;
  ASSERT_EQ(cuMulticastCreate(&object, &properties), CUDA_SUCCESS);
  ASSERT_EQ(cuMulticastAddDevice(object, 0), CUDA_SUCCESS);
  const auto memory = Memory(0, kMulticastLeast);
  ASSERT_EQ(Bind(object, memory, kMulticastLeast), CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  ASSERT_EQ(cuMemAddressReserve(&pointer, kMulticastLeast, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(pointer, kMulticastLeast, 0, object, 0), CUDA_SUCCESS);
  const CUmemAccessDesc member{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const CUmemAccessDesc other{{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const std::array both{member, other};
  EXPECT_EQ(cuMemSetAccess(pointer, kMulticastLeast, &other, 1), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuMemSetAccess(pointer, kMulticastLeast, both.data(), both.size()), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuMemSetAccess(pointer, kMulticastLeast, &member, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(pointer, kMulticastLeast), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(pointer, kMulticastLeast), CUDA_SUCCESS);
  for (const auto handle : {memory, object}) EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tutti::fake_gpu
