// The fixture for tests of the fake GPU's runtime, as a program that nvcc compiled uses it.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>

// Called by such a program's start-up code.
extern "C" void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name, int limit,
                                       uint3* thread, uint3* block, dim3* block_size, dim3* grid_size, int* warp);

namespace tutti::fake_gpu {

class Runtime : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("TUTTI_FAKE_GPU_DEVICES", "2", 1); }
};

// Registers a kernel for the host function at `host`, under its mangled name.
inline void RegisterKernel(const char* host, const char* name) {
  __cudaRegisterFunction(nullptr, host, nullptr, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
}

}  // namespace tutti::fake_gpu
