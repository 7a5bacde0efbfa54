// Instances of a partitioned GPU.
#include <array>
#include <cstring>
#include <string>

#include "testing/fake_gpu/tests/driver_fixture.h"

extern "C" CUresult FirstDeviceGetUuid(CUuuid* uuid, CUdevice device) __asm__("cuDeviceGetUuid");

namespace tutti::fake_gpu {
namespace {

class Mig : public Driver {
 protected:
  static void SetUpTestSuite() {
    Driver::SetUpTestSuite();
    setenv("TUTTI_FAKE_GPU_MIG", "1", 1);
    setenv("TUTTI_FAKE_GPU_MULTICAST", "1", 1);
    setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
  }
};

TEST_F(Mig, AProcessHasOneInstance) {
  int count = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, 1);
  std::array<char, 64> name{};
  EXPECT_EQ(cuDeviceGetName(name.data(), name.size(), 0), CUDA_SUCCESS);
  EXPECT_NE(std::string(name.data()).find(" MIG 1g"), std::string::npos);
  int value = 0;
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0), CUDA_SUCCESS);
  EXPECT_EQ(value, 16);
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0), CUDA_SUCCESS);
  EXPECT_EQ(value, 0);
}

TEST_F(Mig, ItsPlaceAndItsOldUuidAreItsGpus) {
  std::array<char, 16> id{};
  EXPECT_EQ(cuDeviceGetPCIBusId(id.data(), id.size(), 0), CUDA_SUCCESS);
  EXPECT_STREQ(id.data(), "0000:10:00.0") << "as instance 0";
  CUuuid old{}, own{};
  EXPECT_EQ(FirstDeviceGetUuid(&old, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceGetUuid(&own, 0), CUDA_SUCCESS);
  EXPECT_NE(std::memcmp(&old, &own, sizeof own), 0);
}

}  // namespace
}  // namespace tutti::fake_gpu
