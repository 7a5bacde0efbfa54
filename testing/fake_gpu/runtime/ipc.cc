// The runtime's handles of memory for other processes: the driver's under another name.
#include <bit>

#include "testing/fake_gpu/runtime/call.h"

using namespace tutti::fake_gpu;  // NOLINT: what follows is the runtime's interface, in no namespace

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  return Call([&] {
    CUipcMemHandle exported{};
    const CUresult result = cuIpcGetMemHandle(&exported, Device(pointer));
    *handle = std::bit_cast<cudaIpcMemHandle_t>(exported);
    return result;
  });
}

cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned flags) {
  return Call([&] {
    CUdeviceptr opened = 0;
    const CUresult result = cuIpcOpenMemHandle(&opened, std::bit_cast<CUipcMemHandle>(handle), flags);
    *pointer = reinterpret_cast<void*>(opened);
    return result;
  });
}

cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  return Call([&] { return cuIpcCloseMemHandle(Device(pointer)); });
}
