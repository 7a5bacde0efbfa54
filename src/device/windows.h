// GPU memory that all ranks of a communicator have registered: every rank's GPU can access the window parts of all
// ranks of its host, so slots can refer to data instead of carrying it.
//
// As with windows of host memory (src/memory/windows.h), a rank keeps the others' parts until they have deregistered the
// window, too.
//
// Thread-safety: Register is a collective control call; all but PartOf need the communicator's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/all_gather.h"
#include "executors/host/run.h"
#include "src/memory/registered_buffers.h"
#include "src/memory/windows.h"
#include "transports/cuda/fabric.h"
#include "transports/cuda/mapped_memory.h"

namespace tutti::device {

class DeviceWindows {
 public:
  // Registered buffers use the remaining rows of the kernels' table.
  static constexpr std::size_t kMostWindows = cuda_kernels::kDeviceWindows - memory::RegisteredBuffers::kMost;

  DeviceWindows(const cuda_transport::CudaDevice& device, const shm::Fabric& shm);

  // Collective. Throws tuttiInvalidArgument, on every rank, if some rank's memory cannot be shared with other
  // processes; tuttiInternalError if a rank offers memory that is not all in one allocation.
  tuttiWindow* Register(void* buffer, std::size_t bytes, const AllGather& all_gather, Deadline deadline);
  // Local. False, without effect, if the window is not one of these.
  bool Deregister(const tuttiWindow* window);
  // memory::PartOfWindow().
  std::optional<std::span<std::byte>> PartOf(const tuttiWindow* window, int peer) const;
  // Closes what no rank uses any more.
  void CloseRetired();
  // How peers access [pointer, pointer + bytes), if a window of this rank holds it.
  std::optional<host::RemoteAccess> Find(const void* pointer, std::size_t bytes) const;
  // Of the GPU's memory that is its own.
  std::size_t bytes() const { return table_.bytes(); }
  // For kernels: by window * nranks + rank.
  cuda_kernels::DeviceWindow* table() const { return reinterpret_cast<cuda_kernels::DeviceWindow*>(table_.data()); }

 private:
  struct Window {
    std::unique_ptr<tuttiWindow> handle;
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::vector<cuda_transport::OpenedMemory> opened;  // of ranks in other processes
    std::vector<cuda_transport::MappedMemory> mapped;  // by rank, where its memory is mapped by hand
    std::vector<std::span<std::byte>> parts;           // by rank, as this rank's GPU reaches them
  };
  struct Offer;

  // A window's row of the table, with an entry for each rank.
  cuda_kernels::DeviceWindow* Row(std::size_t window) const {
    return table() + window * static_cast<std::size_t>(shm_.nranks());
  }

  Offer MakeOffer(const void* buffer, std::size_t bytes, const cuda_transport::Pieces& pieces) const;
  // Throws tuttiInvalidArgument if some rank's memory cannot be shared.
  static void RequireShareable(const std::vector<Offer>& offers);
  // Where this rank's GPU reaches that rank's part. Opens other processes' memory for that.
  std::span<std::byte> Reach(int rank, const Offer& offer, Window& window) const;

  const cuda_transport::CudaDevice& device_;
  const shm::Fabric& shm_;
  cuda_transport::CudaMemory table_;
  memory::WindowNumbers numbers_;
  mutable std::mutex mutex_;     // held while windows_ changes, and by PartOf
  std::vector<Window> windows_;  // by number
  std::size_t retired_ = 0;
};

}  // namespace tutti::device
