// The runtime's devices, errors and versions.
#include <mutex>
#include <utility>
#include <vector>

#include "testing/fake_gpu/runtime/call.h"
#include "testing/fake_gpu/runtime/refusals.h"

namespace tutti::fake_gpu {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

CUresult Retain(int device, CUcontext* context) {
  static std::mutex mutex;
  static auto* contexts = new std::vector<CUcontext>;
  const std::lock_guard lock(mutex);
  const auto index = static_cast<std::size_t>(device);
  if (index >= contexts->size()) contexts->resize(index + 1);
  CUresult result = CUDA_SUCCESS;
  if ((*contexts)[index] == nullptr) result = cuDevicePrimaryCtxRetain(&(*contexts)[index], device);
  *context = (*contexts)[index];
  return result;
}

int Attribute(CUdevice_attribute attribute, int device) {
  int value = 0;
  cuDeviceGetAttribute(&value, attribute, device);
  return value;
}

}  // namespace

cudaError_t Remember(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

CUresult SetDevice(int device) {
  int count = 0;
  CUcontext context = nullptr;
  CUresult result = cuInit(0);
  if (result == CUDA_SUCCESS) result = cuDeviceGetCount(&count);
  if (result == CUDA_SUCCESS && (device < 0 || device >= count)) result = CUDA_ERROR_INVALID_DEVICE;
  if (result == CUDA_SUCCESS) result = Retain(device, &context);
  return result == CUDA_SUCCESS ? cuCtxSetCurrent(context) : result;
}

CUresult Prepare() {
  CUdevice device = 0;
  return cuCtxGetDevice(&device) == CUDA_SUCCESS ? CUDA_SUCCESS : SetDevice(0);
}

}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;  // NOLINT: what follows is the runtime's interface, in no namespace

cudaError_t cudaSetDevice(int device) { return Remember(Code(SetDevice(device))); }

cudaError_t cudaGetDevice(int* device) {
  return Call([&] { return cuCtxGetDevice(device); });
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  CUresult result = cuInit(0);
  if (result == CUDA_SUCCESS) result = cuDeviceGetCount(count);
  return Remember(Code(result));
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return Call([&] { return cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device); });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int bytes, int device) {
  return Call([&] { return cuDeviceGetPCIBusId(id, bytes, device); });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return Call([&] {
    *properties = {};
    const CUresult result = cuDeviceGetName(properties->name, sizeof properties->name, device);
    if (result != CUDA_SUCCESS) return result;
    cuDeviceGetUuid(&properties->uuid, device);
    cuDeviceTotalMem(&properties->totalGlobalMem, device);
    const auto attribute = [&](CUdevice_attribute which) { return Attribute(which, device); };
    properties->major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    properties->minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    properties->multiProcessorCount = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    properties->warpSize = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    properties->maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    properties->maxThreadsPerMultiProcessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    properties->pciDomainID = attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
    properties->pciBusID = attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
    properties->pciDeviceID = attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
    properties->unifiedAddressing = attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
    properties->concurrentKernels = attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
    return result;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return Call([&] { return cuDeviceCanAccessPeer(can, device, peer); });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return Call([&] {
    CUcontext context = nullptr;
    const CUresult result = Retain(peer, &context);
    return result == CUDA_SUCCESS ? cuCtxEnablePeerAccess(context, flags) : result;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return Call([] { return cuCtxSynchronize(); });
}

// Leaves the device idle; memory that the program forgot to free goes with the process.
cudaError_t cudaDeviceReset() { return cudaDeviceSynchronize(); }

cudaError_t cudaDriverGetVersion(int* version) { return Remember(Code(cuDriverGetVersion(version))); }

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

// As the real one: a name that is not there is no error of the call if the caller can be told so.
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long flags, cudaDriverEntryPointQueryResult* found) {
  CUdriverProcAddressQueryResult said{};
  const CUresult result = cuGetProcAddress(symbol, function, static_cast<int>(version), flags, &said);
  if (found == nullptr) return Remember(Code(result));
  *found = static_cast<cudaDriverEntryPointQueryResult>(said);
  return Remember(result == CUDA_ERROR_NOT_FOUND ? cudaSuccess : Code(result));
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorString(cudaError_t error) {
  if (const char* refusal = RefusalText(error)) return refusal;
  const char* text = nullptr;
  return cuGetErrorString(static_cast<CUresult>(error), &text) == CUDA_SUCCESS ? text : "unrecognized error code";
}

const char* cudaGetErrorName(cudaError_t error) {
  const char* text = nullptr;
  return cuGetErrorName(static_cast<CUresult>(error), &text) == CUDA_SUCCESS ? text : "unrecognized error code";
}
