#include "testing/fake_gpu/nvml/nvml.h"

#include <cuda.h>

#include <array>
#include <cstdint>
#include <cstdio>

namespace {

struct Place {
  unsigned domain = 0, bus = 0, device = 0;
  bool operator==(const Place&) const = default;
};

// PyTorch writes the domain with eight digits, the driver with four.
bool Parse(const char* id, Place* place) {
  return id != nullptr && std::sscanf(id, "%x:%x:%x", &place->domain, &place->bus, &place->device) == 3;
}

}  // namespace

NvmlResult nvmlInit_v2() { return cuInit(0) == CUDA_SUCCESS ? kNvmlSuccess : kNvmlDriverNotLoaded; }
NvmlResult nvmlInit() { return nvmlInit_v2(); }

NvmlResult nvmlDeviceGetCount_v2(unsigned* count) {
  int devices = 0;
  if (cuDeviceGetCount(&devices) != CUDA_SUCCESS) return kNvmlDriverNotLoaded;
  *count = static_cast<unsigned>(devices);
  return kNvmlSuccess;
}

// A device's handle is its number, counted from 1.
NvmlResult nvmlDeviceGetHandleByPciBusId_v2(const char* id, NvmlDevice* device) {
  Place wanted;
  if (!Parse(id, &wanted)) return kNvmlInvalidArgument;
  unsigned count = 0;
  const NvmlResult result = nvmlDeviceGetCount_v2(&count);
  if (result != kNvmlSuccess) return result;
  for (unsigned number = 0; number < count; ++number) {
    std::array<char, 32> text{};
    Place place;
    if (cuDeviceGetPCIBusId(text.data(), text.size(), static_cast<int>(number)) != CUDA_SUCCESS) continue;
    if (!Parse(text.data(), &place) || !(place == wanted)) continue;
    *device = reinterpret_cast<NvmlDevice>(std::uintptr_t{number} + 1);
    return kNvmlSuccess;
  }
  return kNvmlNotFound;
}

NvmlResult nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return cuDriverGetVersion(version) == CUDA_SUCCESS ? kNvmlSuccess : kNvmlDriverNotLoaded;
}

NvmlResult nvmlDeviceGetGpuFabricInfoV(NvmlDevice /*device*/, void* /*info*/) { return kNvmlNotSupported; }

NvmlResult nvmlDeviceGetNvLinkRemoteDeviceType(NvmlDevice /*device*/, unsigned /*link*/, int* /*type*/) {
  return kNvmlNotSupported;
}

NvmlResult nvmlDeviceGetNvLinkRemotePciInfo_v2(NvmlDevice /*device*/, unsigned /*link*/, void* /*info*/) {
  return kNvmlNotSupported;
}

NvmlResult nvmlDeviceGetComputeRunningProcesses(NvmlDevice /*device*/, unsigned* /*count*/, void* /*processes*/) {
  return kNvmlNotSupported;
}
