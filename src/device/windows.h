// GPU memory that all ranks of a communicator have registered: every rank's GPU can access the window parts of all
// ranks of its host, so slots can refer to data instead of carrying it.
//
// Thread-safety: as memory::Windows.
#pragma once

#include <cstdint>
#include <vector>

#include "src/memory/registered_buffers.h"
#include "src/memory/windows.h"
#include "transports/cuda/fabric.h"
#include "transports/cuda/memory/mapped_memory.h"

namespace tutti::device {

class DeviceWindows final : public memory::Windows {
 public:
  // Registered buffers use the remaining rows of the kernels' table.
  static constexpr std::size_t kMostWindows = cuda_kernels::kDeviceWindows - memory::RegisteredBuffers::kMost;

  DeviceWindows(const cuda_transport::CudaDevice& device, const shm::Fabric& shm);

  tuttiWindow* Register(void* buffer, std::size_t bytes, const AllGather& all_gather, Deadline deadline) override;
  // Of the GPU's memory that is its own.
  std::size_t bytes() const { return table_.bytes(); }
  // For kernels: by window * nranks + rank.
  cuda_kernels::DeviceWindow* table() const { return reinterpret_cast<cuda_kernels::DeviceWindow*>(table_.data()); }

 private:
  struct Offer;
  // What keeps the parts of other ranks within reach.
  struct Reached {
    std::vector<cuda_transport::OpenedMemory> opened;  // of ranks in other processes
    std::vector<cuda_transport::MappedMemory> mapped;  // by rank, where its memory is mapped by hand
  };

  void Close(std::uint16_t number) override;
  // A window's row of the table, with an entry for each rank.
  cuda_kernels::DeviceWindow* Row(std::size_t window) const {
    return table() + window * static_cast<std::size_t>(shm_.nranks());
  }

  Offer MakeOffer(const void* buffer, std::size_t bytes, const cuda_transport::Pieces& pieces) const;
  // Throws tuttiInvalidArgument if some rank's memory cannot be shared.
  static void RequireShareable(const std::vector<Offer>& offers);
  // Maps what ranks offer in pieces. Throws tuttiInvalidArgument if that fails on some rank.
  std::vector<cuda_transport::MappedMemory> MapPieces(const std::vector<Offer>& offers,
                                                      const cuda_transport::Pieces& pieces, const AllGather& all_gather,
                                                      Deadline deadline) const;
  // Where this rank's GPU reaches that rank's part. Opens other processes' memory for that.
  std::span<std::byte> Reach(int rank, const Offer& offer, Reached& reached) const;

  const cuda_transport::CudaDevice& device_;
  const shm::Fabric& shm_;
  cuda_transport::CudaMemory table_;
};

}  // namespace tutti::device
