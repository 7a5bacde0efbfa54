// Modules, their functions, and launches: a kernel's host kernel runs in its place
// (executors/cuda/kernels/host_kernel.h).
#include <cuda.h>

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "executors/cuda/kernels/host_kernel.h"
#include "testing/fake_cuda/devices.h"
#include "testing/fake_cuda/environment.h"
#include "testing/fake_cuda/handles.h"
#include "testing/fake_cuda/stream/capture.h"
#include "testing/fake_cuda/stream/stream.h"
#include "testing/fake_cuda/stream/thread_pool.h"

namespace tutti::standin {
namespace {

constexpr int kRegisters = 64;  // of a thread

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

void RunGrid(const cuda_kernels::HostKernel& kernel, unsigned blocks, unsigned block_size, const std::byte* parameter) {
  const unsigned threads = std::clamp<unsigned>(block_size, 1, static_cast<unsigned>(TheEnvironment().block_threads));
  std::vector<std::unique_ptr<std::barrier<>>> barriers(blocks);
  if (threads > 1) {
    for (auto& each : barriers) each = std::make_unique<std::barrier<>>(threads);
  }
  // Zeroed, and aligned for any struct.
  const std::size_t shared_units = (kernel.shared_bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t);
  std::vector<std::max_align_t> shared(shared_units * blocks);
  RunTogether(std::size_t{blocks} * threads, [&](std::size_t number) {
    const auto block = static_cast<std::uint32_t>(number / threads);
    const cuda_kernels::HostKernelThread self{
        .thread = static_cast<std::uint32_t>(number % threads),
        .threads = threads,
        .block = block,
        .blocks = blocks,
        .barrier = barriers[block].get(),
        .shared = reinterpret_cast<std::byte*>(shared.data() + shared_units * block)};
    kernel.run(self, parameter);
  });
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

}  // namespace
}  // namespace tutti::standin

using namespace tutti::standin;  // NOLINT: what follows is the driver's interface, in no namespace

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return Answer([&] {
    ForbidWhileCapturing();
    Require(image != nullptr, CUDA_ERROR_INVALID_VALUE);
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
      case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = kRegisters; break;
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
    const int warps = (threads + kWarp - 1) / kWarp;
    const int by_threads = kMaxMultiprocessorThreads / (warps * kWarp);
    const int by_registers = kMultiprocessorRegisters / (warps * kWarp * kRegisters);
    const int by_shared = static_cast<int>(kSharedPerMultiprocessor / (shared + kSharedReserved));
    const bool launches =
        threads <= kMaxBlockThreads && shared <= static_cast<std::size_t>(function->dynamic_shared_bytes);
    *blocks = launches ? std::min({kMaxMultiprocessorBlocks, by_threads, by_registers, by_shared}) : 0;
  });
}

CUresult cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream_handle, void** parameters,
                        void** extra) {
  return Answer([&] {
    const auto function = FunctionOf(handle);
    const auto stream = StreamOf(stream_handle);
    Require(stream->device() == function->device, CUDA_ERROR_INVALID_HANDLE);
    Require(grid_x > 0 && block_x > 0 && block_x <= kMaxBlockThreads, CUDA_ERROR_INVALID_VALUE);
    // A host kernel supports only the first dimension.
    Require(grid_y == 1 && grid_z == 1 && block_y == 1 && block_z == 1, CUDA_ERROR_INVALID_VALUE);
    Require(shared <= static_cast<unsigned>(function->dynamic_shared_bytes), CUDA_ERROR_INVALID_VALUE);
    Enqueue(stream,
            [kernel = function->kernel, grid_x, block_x, parameter = Parameter(*function->kernel, parameters, extra)] {
              RunGrid(*kernel, grid_x, block_x, parameter.data());
            });
  });
}
