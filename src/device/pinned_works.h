// Memory for launches that exceed a kernel's parameter: pinned, written by the host, read by the kernel, and reused
// when the kernel has ended. A captured launch keeps its memory, as its graph may be replayed at any time.
//
// It is taken ahead, because to pin memory may wait for kernels, and they may wait for the launch that it is for. More
// is taken only if launches of more than kAhead together have not ended or are captured.
//
// Thread-safety: used by one thread at a time.
#pragma once

#include <optional>
#include <vector>

#include "executors/cuda/kernels/device_plan.h"
#include "transports/cuda/fabric.h"
#include "transports/cuda/resources.h"

namespace tutti::device {

class PinnedWorks {
 public:
  // Room for some ten thousand operations.
  static constexpr std::size_t kAhead = std::size_t{1} << 20;

  // Throws tuttiUnhandledCudaError.
  explicit PinnedWorks(const cuda_transport::CudaDevice& device);

  // A launch's queues and works, as its kernel reads them.
  cuda_kernels::DeviceLaunch Write(const std::vector<cuda_kernels::DeviceWorkQueue>& queues,
                                   const std::vector<cuda_kernels::DeviceWork>& works, std::uint32_t collectives);
  // Records that the launch written last has been enqueued on this stream.
  void Enqueued(cuda_transport::CuStream stream, bool captured);

 private:
  // A piece of memory is divided into units; a launch takes a run of them. The first one's event tells of the launch.
  struct Unit {
    std::byte* begin;
    std::size_t first;  // of the run that it was taken in last
    cuda_transport::CudaEvent done;
    bool kept = false;  // for a graph
  };
  // The first of a run of units with that many bytes.
  std::size_t Take(std::size_t bytes);
  // Whether units [first, first + count) are one stretch of memory that no launch uses.
  bool IsFree(std::size_t first, std::size_t count) const;
  void AddPiece(std::size_t bytes);

  const cuda_transport::CudaDevice& device_;
  std::vector<cuda_transport::CudaMemory> pieces_;
  std::vector<Unit> units_;
  std::size_t next_ = 0;  // where the search for free units begins
  std::optional<std::size_t> written_;
};

}  // namespace tutti::device
