#include "executors/cuda/kernel_module.h"

#include "base/error.h"

#ifdef TUTTI_KERNEL_IMAGE
// Embeds the file by .incbin, because C++ has no means before #embed. A separate section keeps its size apart from the
// library's.
__asm__(
    ".section tutti_kernels, \"a\"\n"
    ".balign 64\n"
    "tutti_kernel_image_begin:\n"
    ".incbin \"" TUTTI_KERNEL_IMAGE
    "\"\n"
    "tutti_kernel_image_end:\n"
    ".previous\n");
extern "C" const std::byte tutti_kernel_image_begin[];
#endif

namespace tutti::cuda {
namespace {

// Code for every supported GPU, as the driver takes it.
const std::byte* KernelImage() {
#ifdef TUTTI_KERNEL_IMAGE
  return tutti_kernel_image_begin;
#else
  return nullptr;
#endif
}

// The compute capability of the oldest GPU that there is code for, as "8.0".
std::string OldestArchitecture() {
#ifdef TUTTI_KERNEL_IMAGE
  constexpr int kMajor = 10;
  return fmt::format("{}.{}", TUTTI_KERNEL_OLDEST / kMajor, TUTTI_KERNEL_OLDEST % kMajor);
#else
  return "none";
#endif
}

}  // namespace

// Code from one major version of nvcc runs on drivers of that version and later.
std::string WhyNoKernels(const cuda_transport::CudaDriver& driver) {
#ifdef TUTTI_KERNEL_IMAGE
  constexpr int kNeeded = TUTTI_KERNEL_CUDA_MAJOR * 1000;
  return cuda_transport::WhyTooOld(driver, kNeeded);
#else
  static_cast<void>(driver);
  return "this libtutti was built without nvcc and contains no GPU code";
#endif
}

KernelModule::KernelModule(const cuda_transport::CudaDevice& device) : device_(device) {
  if (const auto why = WhyNoKernels(device.driver()); !why.empty()) {
    Throw(tuttiInvalidUsage, "device {} cannot be used: {}", device.ordinal(), why);
  }
  const auto& driver = device.driver();
  const cuda_transport::CurrentDevice current(driver, device.context());
  if (device.Attribute(cuda_transport::kCuCooperativeLaunch) == 0) {
    Throw(tuttiInvalidUsage, "device {} cannot be used: it has no cooperative launches, and blocks wait for each other",
          device.ordinal());
  }
  const auto loaded = driver.cuModuleLoadData(&module_, KernelImage());
  if (loaded == cuda_transport::kCuErrorNoBinaryForGpu) {
    Throw(tuttiInvalidUsage,
          "device {} cannot be used: its compute capability is {}.{}, and this libtutti has code for {} and later "
          "(TUTTI_CUDA_ARCHITECTURES chooses them when it is built)",
          device.ordinal(), device.Attribute(cuda_transport::kCuMajor), device.Attribute(cuda_transport::kCuMinor),
          OldestArchitecture());
  }
  driver.Check(loaded, "cuModuleLoadData");
  // Asking for a function and its occupancy loads the function even where modules are loaded lazily.
  driver.Check(driver.cuModuleGetFunction(&interpreter_, module_, cuda_kernels::kInterpreterName),
               "cuModuleGetFunction");
  driver.Check(driver.cuModuleGetFunction(&signals_, module_, cuda_kernels::kSignalsName), "cuModuleGetFunction");
  int blocks = 0;
  driver.Check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, interpreter_, cuda_kernels::kMaxThreads, 0),
               "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  resident_blocks_ = static_cast<std::uint32_t>(blocks * device.Attribute(cuda_transport::kCuMultiprocessors));
  // A kernel's first launch may enlarge the context's local memory, which waits for all kernels that run there. An
  // empty launch takes that wait here, before any kernel waits for another.
  cuda_transport::SideStream(driver, device.context()).Run([&](cuda_transport::CuStream stream) {
    Launch(cuda_kernels::DeviceLaunch{}, 1, cuda_kernels::kMaxThreads, stream);
    Launch(cuda_kernels::SignalLaunch{}, stream);
  });
}

KernelModule::~KernelModule() {
  const auto& driver = device_.driver();
  cuda_transport::ReleaseIn(driver, device_.context(), [&] { driver.cuModuleUnload(module_); });
}

void KernelModule::Launch(const cuda_kernels::DeviceLaunch& launch, std::uint32_t blocks, std::uint32_t threads,
                          cuda_transport::CuStream stream) const {
  const auto& driver = device_.driver();
  const cuda_transport::CurrentDevice current(driver, device_.context());
  void* parameter = const_cast<cuda_kernels::DeviceLaunch*>(&launch);
  // Blocks of a launch wait for each other. A cooperative launch begins only when all of them have room, however many
  // other kernels there are, and never with a part of them.
  if (blocks == 1) {
    driver.Check(driver.cuLaunchKernel(interpreter_, 1, 1, 1, threads, 1, 1, 0, stream, &parameter, nullptr),
                 "cuLaunchKernel");
  } else {
    driver.Check(driver.cuLaunchCooperativeKernel(interpreter_, blocks, 1, 1, threads, 1, 1, 0, stream, &parameter),
                 "cuLaunchCooperativeKernel");
  }
}

void KernelModule::Launch(const cuda_kernels::SignalLaunch& launch, cuda_transport::CuStream stream) const {
  const auto& driver = device_.driver();
  const cuda_transport::CurrentDevice current(driver, device_.context());
  void* parameter = const_cast<cuda_kernels::SignalLaunch*>(&launch);
  driver.Check(driver.cuLaunchKernel(signals_, 1, 1, 1, 1, 1, 1, 0, stream, &parameter, nullptr), "cuLaunchKernel");
}

}  // namespace tutti::cuda
