// What can a GPU and its driver share? Multicast objects (NVSwitches that add), fabric handles (memory of GPUs of other
// hosts), dma-buf (a NIC that reads a GPU's memory): what the driver says, and what it answers to an attempt.
//
//   nvcc -O3 -std=c++20 -arch=sm_90 -cudart static -o abilities scripts/gpu_kit/abilities.cu -lcuda && ./abilities
#include <cuda.h>
#include <unistd.h>

#include "probe.cuh"

namespace tutti::probe {
namespace {

// Prints the driver's answer to an attempt, which may be a refusal. True: it did what was asked.
bool Answered(const char* what, CUresult result) {
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS) name = "unknown error";
  std::printf("abilities: %s: %s\n", what, result == CUDA_SUCCESS ? "works" : name);
  return result == CUDA_SUCCESS;
}

void PrintAttributes() {
  constexpr struct {
    CUdevice_attribute attribute;
    const char* name;
  } kAttributes[] = {{CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, "multicast"},
                     {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, "handles: file descriptors"},
                     {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, "handles: fabric"},
                     {CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, "dma-buf"},
                     {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, "GPUDirect RDMA"},
                     {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, "GPUDirect RDMA of mapped memory"},
                     {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, "GPUDirect RDMA flush options"},
                     {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, "GPUDirect RDMA order of writes"},
                     {CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, "native atomics on host memory"},
                     {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, "memory sync domains"}};
  for (const auto& [attribute, name] : kAttributes) {
    int value = 0;
    if (cuDeviceGetAttribute(&value, attribute, 0) == CUDA_SUCCESS) {
      std::printf("abilities: the driver says: %s: %d\n", name, value);
    }
  }
}

CUmemAllocationProp OnDevice(int device, CUmemAllocationHandleType handles) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  prop.requestedHandleTypes = handles;
  return prop;
}

std::size_t Granularity(const CUmemAllocationProp& prop) {
  std::size_t bytes = 0;
  if (cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) != CUDA_SUCCESS) return 0;
  return bytes;
}

void TryFabric() {
  const auto prop = OnDevice(0, CU_MEM_HANDLE_TYPE_FABRIC);
  CUmemGenericAllocationHandle memory = 0;
  if (!Answered("memory with a fabric handle", cuMemCreate(&memory, Granularity(prop), &prop, 0))) return;
  CUmemFabricHandle handle{};
  Answered("its export", cuMemExportToShareableHandle(&handle, memory, CU_MEM_HANDLE_TYPE_FABRIC, 0));
  cuMemRelease(memory);
}

void TryDmaBuf() {
  constexpr std::size_t kBytes = std::size_t{2} << 20;
  CUdeviceptr memory = 0;
  if (!Answered("2 MiB of device memory", cuMemAlloc(&memory, kBytes))) return;
  constexpr struct {
    const char* name;
    unsigned long long flags;
  } kWays[] = {{"its dma-buf", 0}, {"its dma-buf by PCIe", CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE}};
  for (const auto& [name, flags] : kWays) {
    int file = -1;
    const auto result = cuMemGetHandleForAddressRange(&file, memory, kBytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
    if (Answered(name, result)) close(file);
  }
  cuMemFree(memory);
}

// A multicast object over all GPUs, with memory of each.
void TryMulticast(int devices) {
  CUmulticastObjectProp prop{};
  prop.numDevices = static_cast<unsigned>(devices);
  prop.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.size = Granularity(OnDevice(0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  std::size_t granularity = 0;
  if (!Answered("multicast granularity", cuMulticastGetGranularity(&granularity, &prop, CU_MULTICAST_GRANULARITY_RECOMMENDED))) {
    return;
  }
  std::printf("abilities: multicast granularity: %zu bytes\n", granularity);
  prop.size = granularity;
  CUmemGenericAllocationHandle object = 0;
  if (!Answered("a multicast object", cuMulticastCreate(&object, &prop))) return;
  bool complete = true;
  for (int device = 0; device < devices; ++device) {
    complete = Answered("a GPU added to it", cuMulticastAddDevice(object, device)) && complete;
  }
  // Binding needs all of them.
  for (int device = 0; complete && device < devices; ++device) {
    const auto own = OnDevice(device, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUmemGenericAllocationHandle memory = 0;
    if (!Answered("memory for it", cuMemCreate(&memory, granularity, &own, 0))) break;
    complete = Answered("memory bound to it", cuMulticastBindMem(object, 0, memory, 0, granularity, 0));
    cuMemRelease(memory);
  }
  cuMemRelease(object);
}

}  // namespace
}  // namespace tutti::probe

int main() {
  using namespace tutti::probe;
  int devices = 0;
  Check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  for (int device = devices - 1; device >= 0; --device) {
    Check(cudaSetDevice(device), "cudaSetDevice");
    Check(cudaFree(nullptr), "context");  // the driver's calls need one on each
  }
  PrintAttributes();
  TryFabric();
  TryDmaBuf();
  TryMulticast(devices);
}
