// What the kit's probes share: programs of plain CUDA that ask a GPU and its driver without Tutti. A kernel that waits
// ends by the GPU's clock. A call of the host into the driver has no limit but the step's own.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace tutti::probe {

inline void Check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(result));
  std::exit(1);
}

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

inline double MicrosecondsSince(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun).count();
}

inline int AttributeOf(cudaDeviceAttr attribute) {
  int value = 0;
  Check(cudaDeviceGetAttribute(&value, attribute, 0), "cudaDeviceGetAttribute");
  return value;
}

// One clock for all multiprocessors.
__device__ inline std::uint64_t Nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}

// How a kernel is launched.
struct Launch {
  unsigned blocks = 1, threads = 1;
  cudaStream_t stream = nullptr;
  bool cooperative = false;
  bool remote = false;  // in the memory sync domain for data of other GPUs
};

template <typename... Parameters, typename... Arguments>
void Enqueue(const Launch& launch, void (*kernel)(Parameters...), const Arguments&... arguments) {
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (launch.cooperative) {
    attributes[count].id = cudaLaunchAttributeCooperative;
    attributes[count++].val.cooperative = 1;
  }
  if (launch.remote) {
    attributes[count].id = cudaLaunchAttributeMemSyncDomain;
    attributes[count++].val.memSyncDomain = cudaLaunchMemSyncDomainRemote;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = launch.blocks;
  config.blockDim = launch.threads;
  config.stream = launch.stream;
  config.attrs = attributes;
  config.numAttrs = count;
  Check(cudaLaunchKernelEx(&config, kernel, arguments...), "launch");
}

// A word of the host by which a kernel says that it runs.
class Started {
 public:
  Started() {
    Check(cudaHostAlloc(reinterpret_cast<void**>(&word_), sizeof *word_, cudaHostAllocMapped), "cudaHostAlloc");
    Reset();
  }
  ~Started() { cudaFreeHost(word_); }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  unsigned* word() { return word_; }
  void Reset() { *static_cast<volatile unsigned*>(word_) = 0; }
  // False: it did not run within a second.
  bool Wait() const {
    constexpr double kLimitUs = 1e6;
    const auto begun = std::chrono::steady_clock::now();
    while (*static_cast<const volatile unsigned*>(word_) == 0) {
      if (MicrosecondsSince(begun) > kLimitUs) return false;
    }
    return true;
  }

 private:
  unsigned* word_ = nullptr;
};

__device__ inline void SayStarted(unsigned* word) {
  *static_cast<volatile unsigned*>(word) = 1;
  __threadfence_system();
}

}  // namespace tutti::probe
