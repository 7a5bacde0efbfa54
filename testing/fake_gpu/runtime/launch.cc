// Kernels that compiled objects register when they are loaded, and their launches.
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "testing/fake_gpu/extension.h"
#include "testing/fake_gpu/runtime/call.h"
#include "testing/fake_gpu/runtime/host_kernel.h"
#include "testing/fake_gpu/runtime/refusals.h"

namespace tutti::fake_gpu {
namespace {

struct Configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared;
  cudaStream_t stream;
};

thread_local Configuration configuration;

// Kernels by the address of the host function that represents the kernel in a launch.
class Kernels {
 public:
  static Kernels& Instance() {
    static auto* kernels = new Kernels;
    return *kernels;
  }

  void Add(const void* host, const char* name) {
    const std::lock_guard lock(mutex_);
    names_[host] = name;
  }

  // Looked up at the first launch: most kernels of a program are never launched.
  HostKernel Find(const void* host) {
    const std::lock_guard lock(mutex_);
    const auto known = host_kernels_.find(host);
    if (known != host_kernels_.end()) return known->second;
    const auto name = names_.find(host);
    if (name == names_.end()) return nullptr;
    return host_kernels_[host] = FindHostKernel(KernelName::Parse(name->second.c_str()));
  }

  // For a person.
  std::string NameOf(const void* host) {
    constexpr std::size_t kLongest = 200;  // names of templates fill pages
    const std::lock_guard lock(mutex_);
    const auto found = names_.find(host);
    if (found == names_.end()) return "a kernel that was not registered";
    std::string name = Demangled(found->second.c_str());
    if (name.size() > kLongest) name = name.substr(0, kLongest) + "...";
    return name;
  }

 private:
  std::mutex mutex_;
  std::map<const void*, std::string> names_;
  std::map<const void*, HostKernel> host_kernels_;
};

cudaError_t RefuseKernel(const void* host) {
  return Refuse(cudaErrorInvalidDeviceFunction,
                "the fake GPU has no host kernel for " + Kernels::Instance().NameOf(host));
}

// The fake GPU knows of a kernel only what it computes.
cudaError_t RefuseAttributes(const char* function, const void* host) {
  return Kernels::Instance().Find(host) == nullptr ? RefuseKernel(host) : RefuseFunction(function);
}

}  // namespace
}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;  // NOLINT: what follows is the runtime's interface, in no namespace

extern "C" {

void** __cudaRegisterFatBinary(void* /*binary*/) {
  static void* handle = nullptr;
  return &handle;
}

void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** /*handle*/) {}

void __cudaRegisterFunction(void** /*handle*/, const char* host, char* /*device*/, const char* name, int /*limit*/,
                            uint3* /*thread*/, uint3* /*block*/, dim3* /*block_size*/, dim3* /*grid_size*/,
                            int* /*warp*/) {
  Kernels::Instance().Add(host, name);
}

void __cudaRegisterVar(void** /*handle*/, char* /*host*/, char* /*device*/, const char* /*name*/, int /*external*/,
                       std::size_t /*bytes*/, int /*constant*/, int /*global*/) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
  configuration = {grid, block, shared, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}

// A kernel's handle is its host function's address.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                               cudaStream_t stream) {
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, arguments, shared, stream);
}

}  // extern "C"

cudaError_t cudaLaunchKernel(const void* host, dim3 /*grid*/, dim3 /*block*/, void** arguments, std::size_t /*shared*/,
                             cudaStream_t stream) {
  const HostKernel kernel = Kernels::Instance().Find(host);
  if (kernel == nullptr) return RefuseKernel(host);
  return Call([&] { return fakeGpuEnqueue(stream, kernel(arguments)); });
}

// Attributes of a launch say how blocks share the device, which host kernels do not need to know.
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* host, void** arguments) {
  return cudaLaunchKernel(host, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes, config->stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* host, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                                        cudaStream_t stream) {
  return cudaLaunchKernel(host, grid, block, arguments, shared, stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* /*attributes*/, const void* host) {
  return RefuseAttributes("cudaFuncGetAttributes", host);
}

cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute /*attribute*/, int /*value*/) {
  return RefuseAttributes("cudaFuncSetAttribute", host);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* /*blocks*/, const void* host, int /*threads*/,
                                                          std::size_t /*shared*/) {
  return RefuseAttributes("cudaOccupancyMaxActiveBlocksPerMultiprocessor", host);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* /*blocks*/, const void* host, int /*threads*/,
                                                                   std::size_t /*shared*/, unsigned /*flags*/) {
  return RefuseAttributes("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", host);
}
