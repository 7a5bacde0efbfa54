// Memory for launches that exceed a kernel's parameter: pinned, written by the host, read by the kernel, and reused
// when the kernel has ended. A captured launch keeps its memory, as its graph may be replayed at any time.
//
// Thread-safety: used by one thread at a time.
#pragma once

#include <vector>

#include "executors/cuda/kernels/device_plan.h"
#include "transports/cuda/fabric.h"
#include "transports/cuda/resources.h"

namespace tutti::device {

class PinnedWorks {
 public:
  explicit PinnedWorks(const cuda_transport::CudaDevice& device) : device_(device) {}

  // A launch's queues and works, as its kernel reads them.
  cuda_kernels::DeviceLaunch Write(const std::vector<cuda_kernels::DeviceWorkQueue>& queues,
                                   const std::vector<cuda_kernels::DeviceWork>& works);
  // Records that the launch written last has been enqueued on this stream.
  void Enqueued(cuda_transport::CuStream stream, bool captured);

 private:
  struct Block {
    cuda_transport::CudaMemory memory;
    cuda_transport::CudaEvent done;
    bool kept = false;  // for a graph
  };
  Block& Free(std::size_t bytes);

  const cuda_transport::CudaDevice& device_;
  std::vector<Block> blocks_;
  Block* written_ = nullptr;
};

}  // namespace tutti::device
