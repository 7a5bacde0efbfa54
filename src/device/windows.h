// GPU memory that all ranks of a communicator have registered: every rank's GPU can access the window parts of all
// ranks of its host, so slots can refer to data instead of carrying it.
//
// Thread-safety: Register and Deregister are collective control calls; Find may not run concurrently with either. The
// communicator's lock ensures that.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "executors/host/run.h"
#include "src/memory/registered_buffers.h"
#include "src/memory/windows.h"
#include "transports/cuda/fabric.h"

namespace tutti {

class DeviceWindows {
 public:
  // Registered buffers use the remaining rows of the kernels' table.
  static constexpr std::size_t kMostWindows = kDeviceWindows - RegisteredBuffers::kMost;

  DeviceWindows(const CudaDevice& device, const Fabric& shm);

  // Collective. Throws tuttiInvalidArgument, on every rank, if some rank's memory cannot be shared with other
  // processes; tuttiInternalError if a rank offers memory that is not all in one allocation.
  tuttiWindow* Register(void* buffer, std::size_t bytes, const AllGather& all_gather);
  // Collective. False, without effect, if the window is not one of these.
  bool Deregister(const tuttiWindow* window, const AllGather& all_gather);
  // How peers access [pointer, pointer + bytes), if a window of this rank holds it.
  std::optional<RemoteAccess> Find(const void* pointer, std::size_t bytes) const;
  // For kernels: by window * nranks + rank.
  DeviceWindow* table() const { return reinterpret_cast<DeviceWindow*>(table_.data()); }

 private:
  struct Window {
    std::unique_ptr<tuttiWindow> handle;
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::vector<OpenedMemory> opened;  // of ranks in other processes
  };

  // A window's row of the table, with an entry for each rank.
  DeviceWindow* Row(std::size_t window) const { return table() + window * static_cast<std::size_t>(shm_.nranks()); }

  const CudaDevice& device_;
  const Fabric& shm_;
  CudaMemory table_;
  std::vector<Window> windows_;  // by number; a deregistered one keeps its place
};

}  // namespace tutti
