#include "executors/cuda/kernel_module.h"

#include <memory>
#include <type_traits>

#include "base/error.h"

#ifdef TUTTI_KERNEL_IMAGE
// The linker's own way of taking a file in; C++ has none before #embed. In a section of its own, so that its size can
// be told from the library's.
__asm__(
    ".section tutti_kernels, \"a\"\n"
    ".balign 64\n"
    "tutti_kernel_image_begin:\n"
    ".incbin \"" TUTTI_KERNEL_IMAGE
    "\"\n"
    "tutti_kernel_image_end:\n"
    ".previous\n");
extern "C" const std::byte tutti_kernel_image_begin[];
extern "C" const std::byte tutti_kernel_image_end[];
#endif

namespace tutti {

std::span<const std::byte> KernelImage() {
#ifdef TUTTI_KERNEL_IMAGE
  return {tutti_kernel_image_begin, tutti_kernel_image_end};
#else
  return {};
#endif
}

KernelModule::KernelModule(const CudaDevice& device) : device_(device) {
  if (KernelImage().empty()) {
    Throw(tuttiInvalidUsage, "this libtutti was built without nvcc and has no code for GPUs: device {} cannot be used",
          device.ordinal());
  }
  const auto& driver = device.driver();
  const CurrentDevice current(driver, device.context());
  const BesideCapture beside(driver);
  driver.Check(driver.cuModuleLoadData(&module_, KernelImage().data()), "cuModuleLoadData");
  // Also where modules are loaded lazily, asking for the function and its occupancy loads it.
  driver.Check(driver.cuModuleGetFunction(&interpreter_, module_, kInterpreterName), "cuModuleGetFunction");
  int blocks = 0;
  driver.Check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, interpreter_, kMaxThreads, 0),
               "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  resident_blocks_ = static_cast<std::uint32_t>(blocks * device.Attribute(kCuMultiprocessors));
  LaunchEmpty();
}

// A kernel's first launch may have to make the context's memory for local variables larger, which waits for all that
// runs there: one that does nothing takes this on itself, before any waits for another.
void KernelModule::LaunchEmpty() const {
  const auto& driver = device_.driver();
  CuStream stream = nullptr;
  driver.Check(driver.cuStreamCreate(&stream, kCuStreamNonBlocking), "cuStreamCreate");
  const std::unique_ptr<std::remove_pointer_t<CuStream>, CuResult (*)(CuStream)> owner(stream, driver.cuStreamDestroy);
  Launch(DeviceLaunch{}, 1, kMaxThreads, stream);
  driver.Check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

KernelModule::~KernelModule() {
  const auto& driver = device_.driver();
  if (driver.cuCtxPushCurrent(device_.context()) != kCuSuccess) return;
  driver.cuModuleUnload(module_);
  CuContext popped = nullptr;
  driver.cuCtxPopCurrent(&popped);
}

void KernelModule::Launch(const DeviceLaunch& launch, std::uint32_t blocks, std::uint32_t threads,
                          CuStream stream) const {
  const auto& driver = device_.driver();
  const CurrentDevice current(driver, device_.context());
  void* parameter = const_cast<DeviceLaunch*>(&launch);
  driver.Check(driver.cuLaunchKernel(interpreter_, blocks, 1, 1, threads, 1, 1, 0, stream, &parameter, nullptr),
               "cuLaunchKernel");
}

}  // namespace tutti
