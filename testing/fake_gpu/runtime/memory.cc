// The runtime's memory: the driver's, so that both know every pointer.
#include "testing/fake_gpu/runtime/call.h"

using namespace tutti::fake_gpu;  // NOLINT: what follows is the runtime's interface, in no namespace

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return Call([&] {
    CUdeviceptr memory = 0;
    const CUresult result = bytes == 0 ? CUDA_SUCCESS : cuMemAlloc(&memory, bytes);
    *pointer = reinterpret_cast<void*>(memory);
    return result;
  });
}

cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned flags) {
  return Call([&] {
    CUdeviceptr memory = 0;
    const CUresult result = cuMemAllocManaged(&memory, bytes, flags);
    *pointer = reinterpret_cast<void*>(memory);
    return result;
  });
}

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) {
  return Call([&] {
    CUdeviceptr memory = 0;
    const CUresult result = bytes == 0 ? CUDA_SUCCESS : cuMemAllocAsync(&memory, bytes, stream);
    *pointer = reinterpret_cast<void*>(memory);
    return result;
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return Call([&] { return cuMemFreeAsync(Device(pointer), stream); });
}

cudaError_t cudaFree(void* pointer) {
  return Call([&] { return cuMemFree(Device(pointer)); });
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  return Call([&] { return cuMemHostAlloc(pointer, bytes, flags); });
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
  return Call([&] { return cuMemHostRegister(pointer, bytes, flags); });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return Call([&] { return cuMemHostUnregister(pointer); });
}

cudaError_t cudaFreeHost(void* pointer) {
  return Call([&] { return cuMemFreeHost(pointer); });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return Call([&] { return cuMemGetInfo(free, total); });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return Call([&] {
    *attributes = {};
    unsigned type = 0;
    attributes->device = cudaInvalidDeviceId;
    const CUdeviceptr where = Device(pointer);
    if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, where) != CUDA_SUCCESS) return CUDA_SUCCESS;
    const bool host = type == CU_MEMORYTYPE_HOST;
    attributes->type = host ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    attributes->devicePointer = const_cast<void*>(pointer);
    attributes->hostPointer = host ? const_cast<void*>(pointer) : nullptr;
    return cuPointerGetAttribute(&attributes->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, where);
  });
}
