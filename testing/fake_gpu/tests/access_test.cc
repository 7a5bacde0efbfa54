// Which device's kernels reach which memory.
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "testing/fake_gpu/tests/strict_fixture.h"

namespace tutti::fake_gpu {
namespace {

// Two devices, each with a kernel that touches a number.
class Access : public Strict {
 protected:
  void SetUp() override {
    Strict::SetUp();
    for (int device = 0; device < kDevices; ++device) {
      auto& each = devices_.emplace_back();
      ASSERT_EQ(cuDevicePrimaryCtxRetain(&each.context, device), CUDA_SUCCESS);
      ASSERT_EQ(cuCtxSetCurrent(each.context), CUDA_SUCCESS);
      ASSERT_EQ(cuModuleLoadData(&each.module, "anything"), CUDA_SUCCESS);
      ASSERT_EQ(cuModuleGetFunction(&each.touch, each.module, "meeting"), CUDA_SUCCESS);
    }
    On(0);
  }
  void TearDown() override {
    On(0);
    for (int device = 0; device < kDevices; ++device) {
      EXPECT_EQ(cuModuleUnload(devices_.at(device).module), CUDA_SUCCESS);
      EXPECT_EQ(cuDevicePrimaryCtxRelease(device), CUDA_SUCCESS);
    }
    Strict::TearDown();
  }
  // The device of the next calls.
  void On(int device) { ASSERT_EQ(cuCtxSetCurrent(devices_.at(device).context), CUDA_SUCCESS); }
  void EnableOnDevice1() {
    On(1);
    EXPECT_EQ(cuCtxEnablePeerAccess(devices_.at(0).context, 0), CUDA_SUCCESS);
    On(0);
  }
  // Success, unless the kernel faults.
  CUresult Touch(int device, CUdeviceptr pointer) {
    On(device);
    Meeting parameter{As<std::uint32_t>(pointer), 0};
    void* parameters[] = {&parameter};
    EXPECT_EQ(cuLaunchKernel(devices_.at(device).touch, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr),
              CUDA_SUCCESS);
    const CUresult result = cuCtxSynchronize();
    if (result == CUDA_SUCCESS) On(0);
    return result;
  }
  void ExpectFault(int device, CUdeviceptr pointer) {
    EXPECT_EXIT(std::exit(Touch(device, pointer) == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1), ::testing::ExitedWithCode(0),
                "a kernel touched what is no memory of its device");
  }

 private:
  struct Device {
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    CUfunction touch = nullptr;
  };
  std::vector<Device> devices_;
};

using AccessDeathTest = Access;

TEST_F(AccessDeathTest, PeersReachMemoryOnceThatIsEnabled) {
  const CUdeviceptr before = Allocate(64);
  ExpectFault(1, before);
  EnableOnDevice1();
  const CUdeviceptr after = Allocate(64);
  for (const CUdeviceptr pointer : {before, after}) {
    EXPECT_EQ(Touch(0, pointer), CUDA_SUCCESS);
    EXPECT_EQ(Touch(1, pointer), CUDA_SUCCESS);
  }
  On(1);
  const CUdeviceptr of_peer = Allocate(64);
  ExpectFault(0, of_peer);  // it has not enabled access itself
  EXPECT_EQ(cuMemcpyDtoD(of_peer, before, 64), CUDA_SUCCESS);
  for (const CUdeviceptr pointer : {before, after, of_peer}) EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
}

TEST_F(AccessDeathTest, APoolIsItsDevicesOwn) {
  CUdeviceptr pointer = 0;
  ASSERT_EQ(cuMemAllocAsync(&pointer, 64, nullptr), CUDA_SUCCESS);
  EnableOnDevice1();
  EXPECT_EQ(Touch(0, pointer), CUDA_SUCCESS);
  ExpectFault(1, pointer);
  CUipcMemHandle handle{};
  EXPECT_EQ(cuIpcGetMemHandle(&handle, pointer), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
}

TEST_F(AccessDeathTest, MappedMemoryIsOfTheDevicesThatWereNamed) {
  constexpr std::size_t kBytes = 2 * MiB;
  EnableOnDevice1();  // is of no use for such memory
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUdeviceptr pointer = 0;
  CUmemGenericAllocationHandle memory = 0;
  ASSERT_EQ(cuMemAddressReserve(&pointer, kBytes, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemCreate(&memory, kBytes, &properties, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(pointer, kBytes, 0, memory, 0), CUDA_SUCCESS);
  ExpectFault(0, pointer);
  const auto set = [&](int device, CUmemAccess_flags flags) {
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
    EXPECT_EQ(cuMemSetAccess(pointer, kBytes, &access, 1), CUDA_SUCCESS);
  };
  set(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(Touch(0, pointer), CUDA_SUCCESS);
  ExpectFault(1, pointer);
  set(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  set(0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  EXPECT_EQ(Touch(1, pointer), CUDA_SUCCESS);
  ExpectFault(0, pointer);
  EXPECT_EQ(cuMemUnmap(pointer, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(pointer, kBytes), CUDA_SUCCESS);
}

// The first address of a file that is mapped into a processor of this process; 0: not found.
std::uintptr_t MappedInAProcessor() {
  pid_t child = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    if (std::ifstream(thread.path() / "children") >> child) break;
  }
  std::ifstream maps("/proc/" + std::to_string(child) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("libc.so") != std::string::npos) return std::stoul(line, nullptr, 16);
  }
  return 0;
}

std::ptrdiff_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST_F(Access, ARegistrationThatFailsLeavesNothing) {
  const std::uintptr_t taken = MappedInAProcessor();
  if (taken == 0) GTEST_SKIP() << "this system does not tell where a processor has its memory";
  const int file = memfd_create("registered", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 4096), 0);
  void* const shared =
      mmap(reinterpret_cast<void*>(taken), 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0);
  ASSERT_NE(shared, MAP_FAILED);
  EXPECT_EQ(cuMemHostRegister(shared, 4096, 0), CUDA_ERROR_OUT_OF_MEMORY);
  const auto before = OpenDescriptors();
  EXPECT_EQ(cuMemHostRegister(shared, 4096, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(OpenDescriptors(), before);
  munmap(shared, 4096);
  close(file);
}

TEST_F(Access, AllDevicesReachPinnedAndManagedMemory) {
  const Pinned pinned;
  CUdeviceptr managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  for (int device = 0; device < kDevices; ++device) {
    EXPECT_EQ(Touch(device, reinterpret_cast<CUdeviceptr>(pinned.value)), CUDA_SUCCESS);
    EXPECT_EQ(Touch(device, managed), CUDA_SUCCESS);
  }
  EXPECT_EQ(cuMemFree(managed), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tutti::fake_gpu
