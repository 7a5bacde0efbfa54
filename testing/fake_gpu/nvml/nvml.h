// The few functions of NVIDIA's management library that PyTorch asks for where it maps memory piece by piece. Declared
// here, because the library's own header is not part of every toolkit.
#pragma once

extern "C" {

// Codes have the numbers of the real library.
enum NvmlResult : int {
  kNvmlSuccess = 0,
  kNvmlInvalidArgument = 2,
  kNvmlNotSupported = 3,
  kNvmlNotFound = 6,
  kNvmlDriverNotLoaded = 9,
};

using NvmlDevice = struct NvmlDeviceStruct*;

NvmlResult nvmlInit();
NvmlResult nvmlInit_v2();
NvmlResult nvmlDeviceGetCount_v2(unsigned* count);
NvmlResult nvmlDeviceGetHandleByPciBusId_v2(const char* id, NvmlDevice* device);
NvmlResult nvmlSystemGetCudaDriverVersion_v2(int* version);

// No device of the fake GPU is part of a fabric, knows what is at the other end of its links, or lists processes.
NvmlResult nvmlDeviceGetGpuFabricInfoV(NvmlDevice device, void* info);
NvmlResult nvmlDeviceGetNvLinkRemoteDeviceType(NvmlDevice device, unsigned link, int* type);
NvmlResult nvmlDeviceGetNvLinkRemotePciInfo_v2(NvmlDevice device, unsigned link, void* info);
NvmlResult nvmlDeviceGetComputeRunningProcesses(NvmlDevice device, unsigned* count, void* processes);

}  // extern "C"
