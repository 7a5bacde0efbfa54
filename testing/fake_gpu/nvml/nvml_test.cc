#include "testing/fake_gpu/nvml/nvml.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace {

TEST(Nvml, DevicesAreFoundByTheirPlace) {
  setenv("TUTTI_FAKE_GPU_DEVICES", "2", 1);
  ASSERT_EQ(nvmlInit_v2(), kNvmlSuccess);
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), kNvmlSuccess);
  EXPECT_EQ(count, 2U);
  NvmlDevice first = nullptr, second = nullptr, none = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2("00000000:10:00.0", &first), kNvmlSuccess);
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2("0000:11:00.0", &second), kNvmlSuccess);
  EXPECT_NE(first, second);
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2("0000:12:00.0", &none), kNvmlNotFound);
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2("a device", &none), kNvmlInvalidArgument);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(nvmlDeviceGetGpuFabricInfoV(first, nullptr), kNvmlNotSupported);
}

}  // namespace
