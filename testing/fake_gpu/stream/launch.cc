// Modules, their functions, and launches: a kernel's host kernel runs in its place
// (executors/cuda/kernels/host_kernel.h).
#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "executors/cuda/kernels/host_kernel.h"
#include "testing/fake_gpu/devices.h"
#include "testing/fake_gpu/environment.h"
#include "testing/fake_gpu/handles.h"
#include "testing/fake_gpu/processor/processors.h"
#include "testing/fake_gpu/stream/capture.h"
#include "testing/fake_gpu/stream/grid.h"
#include "testing/fake_gpu/stream/residency.h"
#include "testing/fake_gpu/stream/stream.h"

namespace tutti::fake_gpu {
namespace {

struct Module {
  CUdevice device;
};

struct Function {
  const cuda_kernels::HostKernel* kernel;
  std::weak_ptr<Module> module;
  CUdevice device;
  int dynamic_shared_bytes = kSharedPerBlock;  // the most that it may request
};

std::shared_ptr<Function> FunctionOf(CUfunction handle) {
  auto function = Handles<CUfunction, Function>().Find(handle);
  Require(!function->module.expired(), CUDA_ERROR_INVALID_HANDLE);
  return function;
}

// How many blocks of this size one multiprocessor holds; 0: not even one.
int BlocksPerMultiprocessor(const Function& function, int threads, std::size_t shared) {
  const int warps = (threads + kWarp - 1) / kWarp;
  const int by_threads = kMaxMultiprocessorThreads / (warps * kWarp);
  const int by_registers = kMultiprocessorRegisters / (warps * kWarp * kThreadRegisters);
  const int by_shared = static_cast<int>(kSharedPerMultiprocessor / (shared + kSharedReserved));
  const bool launches =
      threads <= kMaxBlockThreads && shared <= static_cast<std::size_t>(function.dynamic_shared_bytes);
  return launches ? std::min({kMaxMultiprocessorBlocks, by_threads, by_registers, by_shared}) : 0;
}

void Run(CUdevice device, const cuda_kernels::HostKernel& kernel, const GridShape& shape,
         const std::vector<std::byte>& parameter) {
  if (!TheEnvironment().apart) return RunGrid(kernel, shape, parameter.data());
  const auto number = static_cast<std::uint32_t>(&kernel - cuda_kernels::HostKernels().data());
  Processors::Instance().Run(device, number, shape, parameter);
}

// The kernel's only parameter, a struct, from either of the two ways to pass it.
std::vector<std::byte> Parameter(const cuda_kernels::HostKernel& kernel, void** parameters, void** extra) {
  std::vector<std::byte> copy(kernel.parameter_bytes);
  const void* given = nullptr;
  if (parameters != nullptr) {
    Require(extra == nullptr, CUDA_ERROR_INVALID_VALUE);
    given = parameters[0];
  } else if (extra != nullptr) {
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
      if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) given = extra[1];
      if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
        Require(*static_cast<const std::size_t*>(extra[1]) == copy.size(), CUDA_ERROR_INVALID_VALUE);
      }
    }
  }
  Require(given != nullptr || copy.empty(), CUDA_ERROR_INVALID_VALUE);
  if (!copy.empty()) std::memcpy(copy.data(), given, copy.size());
  return copy;
}

bool IsCooperative(const CUlaunchConfig& config) {
  const std::span attributes(config.attrs, config.numAttrs);
  return std::any_of(attributes.begin(), attributes.end(), [](const CUlaunchAttribute& attribute) {
    return attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attribute.value.cooperative != 0;
  });
}

}  // namespace
}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;  // NOLINT: what follows is the driver's interface, in no namespace

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return Answer([&] {
    ForbidWhileCapturing();
    Require(image != nullptr, CUDA_ERROR_INVALID_VALUE);
    constexpr int kOldestCode = 80;  // the architectures that the library has code for
    Require(TheEnvironment().capability >= kOldestCode, CUDA_ERROR_NO_BINARY_FOR_GPU);
    if (TheEnvironment().apart) Processors::Instance().Start(CurrentDevice());
    *module = Handles<CUmodule, Module>().Add(std::make_shared<Module>(Module{CurrentDevice()}));
  });
}

CUresult cuModuleUnload(CUmodule module) {
  return Answer([&] { Handles<CUmodule, Module>().Remove(module); });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  return Answer([&] {
    const auto module = Handles<CUmodule, Module>().Find(handle);
    Require(name != nullptr, CUDA_ERROR_INVALID_VALUE);
    for (const auto& kernel : tutti::cuda_kernels::HostKernels()) {
      if (std::string_view(kernel.name) != name) continue;
      *function =
          Handles<CUfunction, Function>().Add(std::make_shared<Function>(Function{&kernel, module, module->device}));
      return;
    }
    Fail(CUDA_ERROR_NOT_FOUND);
  });
}

CUresult cuFuncLoad(CUfunction function) {
  return Answer([&] { FunctionOf(function); });
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  return Answer([&] {
    const auto function = FunctionOf(handle);
    switch (attribute) {
      case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = kMaxBlockThreads; break;
      case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = kThreadRegisters; break;
      case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = function->dynamic_shared_bytes; break;
      case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 90; break;
      default: *value = 0;
    }
  });
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  return Answer([&] {
    const auto function = FunctionOf(handle);
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return;
    Require(attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CUDA_ERROR_INVALID_VALUE);
    Require(value >= 0 && value <= kSharedPerBlockOptin, CUDA_ERROR_INVALID_VALUE);
    function->dynamic_shared_bytes = value;
  });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle, int threads, std::size_t shared) {
  return Answer([&] {
    const auto function = FunctionOf(handle);
    Require(threads > 0, CUDA_ERROR_INVALID_VALUE);
    *blocks = BlocksPerMultiprocessor(*function, threads, shared);
  });
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** parameters,
                        void** extra) {
  const CUlaunchConfig config{grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, nullptr, 0};
  return cuLaunchKernelEx(&config, function, parameters, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                   CUstream stream, void** parameters) {
  CUlaunchAttribute cooperative{};
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.value.cooperative = 1;
  const CUlaunchConfig config{grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, &cooperative, 1};
  return cuLaunchKernelEx(&config, function, parameters, nullptr);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction handle, void** parameters, void** extra) {
  return Answer([&] {
    const auto function = FunctionOf(handle);
    const auto stream = StreamOf(config->hStream);
    Require(stream->device() == function->device, CUDA_ERROR_INVALID_HANDLE);
    const unsigned blocks = config->gridDimX, threads = config->blockDimX;
    Require(blocks > 0 && threads > 0 && threads <= kMaxBlockThreads, CUDA_ERROR_INVALID_VALUE);
    // A host kernel supports only the first dimension.
    Require(config->gridDimY == 1 && config->gridDimZ == 1 && config->blockDimY == 1 && config->blockDimZ == 1,
            CUDA_ERROR_INVALID_VALUE);
    Require(config->sharedMemBytes <= static_cast<unsigned>(function->dynamic_shared_bytes), CUDA_ERROR_INVALID_VALUE);
    const int each = BlocksPerMultiprocessor(*function, static_cast<int>(threads), config->sharedMemBytes);
    Require(each > 0, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    const bool cooperative = IsCooperative(*config);
    const auto most = static_cast<unsigned>(each * TheEnvironment().multiprocessors);
    Require(!cooperative || blocks <= most, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    const unsigned host_threads =
        std::clamp<unsigned>(threads, 1, static_cast<unsigned>(TheEnvironment().block_threads));
    Enqueue(stream, [=, kernel = function->kernel, device = function->device,
                     parameter = Parameter(*function->kernel, parameters, extra)] {
      const Room room(device, blocks, each, cooperative);
      QueueHead::Begun();
      Run(device, *kernel, {blocks, host_threads, room.blocks()}, parameter);
    });
  });
}
