// The runtime's copies and fills.
#include "testing/fake_gpu/runtime/call.h"

using namespace tutti::fake_gpu;  // NOLINT: what follows is the runtime's interface, in no namespace

// The pointers determine the direction.
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/) {
  return Call([&] { return cuMemcpy(Device(to), Device(from), bytes); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  return Call([&] { return cuMemcpyAsync(Device(to), Device(from), bytes, stream); });
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return Call([&] { return cuMemsetD8(Device(to), static_cast<unsigned char>(value), bytes); });
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return Call([&] { return cuMemsetD8Async(Device(to), static_cast<unsigned char>(value), bytes, stream); });
}

// Row by row: the fake GPU's driver copies only what is contiguous.
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind /*kind*/, cudaStream_t stream) {
  return Call([&] {
    if (width > to_pitch || width > from_pitch) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    for (std::size_t row = 0; row < height && result == CUDA_SUCCESS; ++row) {
      result = cuMemcpyAsync(Device(to) + row * to_pitch, Device(from) + row * from_pitch, width, stream);
    }
    return result;
  });
}

// All devices' memory has addresses of its own, so the devices' numbers say nothing more.
cudaError_t cudaMemcpyPeerAsync(void* to, int /*to_device*/, const void* from, int /*from_device*/, std::size_t bytes,
                                cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
