// Prints the name of each GPU that CUDA shows to a program here: an instance (MIG) has a name of its own, and
// CUDA_VISIBLE_DEVICES hides some. nvidia-smi lists all whole GPUs instead.
//
//   nvcc -std=c++20 -cudart static -o devices scripts/gpu_kit/devices.cu -lcuda && ./devices
#include <cuda.h>

#include <cstdio>

int main() {
  int count = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&count) != CUDA_SUCCESS) return 1;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device = 0;
    char name[256] = "";
    if (cuDeviceGet(&device, ordinal) != CUDA_SUCCESS || cuDeviceGetName(name, sizeof name, device) != CUDA_SUCCESS)
      return 1;
    std::printf("%s\n", name);
  }
}
