// The kernels in a device's context. They are loaded whole at init, because loading a kernel while another one spins
// waits for that one forever; and launched once, for the same reason.
//
// Thread-safety: immutable after construction.
#pragma once

#include <cstdint>
#include <string>

#include "executors/cuda/kernels/device_plan.h"
#include "transports/cuda/fabric.h"

namespace tutti::cuda {

// Why the driver cannot run the kernels of this library, or "".
std::string WhyNoKernels(const cuda_transport::CudaDriver& driver);

class KernelModule {
 public:
  // Throws tuttiUnhandledCudaError if the driver refuses the code; tuttiInvalidUsage if there is none.
  explicit KernelModule(const cuda_transport::CudaDevice& device);
  ~KernelModule();
  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;

  const cuda_transport::CudaDevice& device() const { return device_; }
  // Blocks of kMaxThreads that the device runs at the same time. A launch of more would wait for itself.
  std::uint32_t resident_blocks() const { return resident_blocks_; }
  // Enqueues. REQUIRES: blocks <= resident_blocks(). Throws tuttiUnhandledCudaError.
  void Launch(const cuda_kernels::DeviceLaunch& launch, std::uint32_t blocks, std::uint32_t threads,
              cuda_transport::CuStream stream) const;
  // Likewise, one thread that sends or awaits signals.
  void Launch(const cuda_kernels::SignalLaunch& launch, cuda_transport::CuStream stream) const;

 private:
  const cuda_transport::CudaDevice& device_;
  cuda_transport::CuModule module_ = nullptr;
  cuda_transport::CuFunction interpreter_ = nullptr;
  cuda_transport::CuFunction signals_ = nullptr;
  std::uint32_t resident_blocks_ = 0;
};

}  // namespace tutti::cuda
