// Memory of the GPUs of a host's ranks, which the switch between them adds and multiplies (NVLink SHARP; CUDA's multicast
// objects). Every rank has a piece of its own, and one more address that means all pieces of its host at once, for multimem
// instructions only.
//
// Thread-safety: collective to make; getters from any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/all_gather.h"
#include "base/clocks/deadline.h"
#include "transports/cuda/cuda_device.h"
#include "transports/cuda/memory/mapped_memory.h"
#include "transports/shm/fabric.h"

namespace tutti::cuda_transport {

class TeamMemory {
 public:
  // Collective. `shm` connects the same ranks; it and `device` outlive this. Null on all ranks where it is impossible on
  // some host, with the reason in *why: a rank alone on its host, two ranks on one GPU, a GPU or driver without multicast,
  // or a call of the driver that failed on some rank. `wanted`: the setting, of this rank.
  static std::unique_ptr<TeamMemory> Make(const CudaDevice& device, const shm::Fabric& shm, std::size_t bytes,
                                          bool wanted, const AllGather& all_gather, Deadline deadline,
                                          std::string* why);
  ~TeamMemory();
  TeamMemory(const TeamMemory&) = delete;
  TeamMemory& operator=(const TeamMemory&) = delete;

  std::size_t bytes() const { return bytes_; }  // of this rank's piece
  std::byte* own() const { return reinterpret_cast<std::byte*>(own_.address); }
  std::byte* all() const { return reinterpret_cast<std::byte*>(all_.address); }

  // Keeps the memory that other ranks use alive for the rest of this process.
  static void Abandon(std::unique_ptr<TeamMemory> memory);

 private:
  struct Mapped {
    CuPointer address = 0;
    bool mapped = false;
  };

  TeamMemory(const CudaDevice& device, std::size_t granularity, std::size_t bytes);
  void Map(CuMemory memory, Mapped& mapped);
  void Unmap(const Mapped& mapped);

  const CudaDevice& device_;
  CuDevice number_ = 0;
  std::size_t granularity_, bytes_;
  std::shared_ptr<PhysicalMemory> object_;  // the multicast object, as this process knows it
  CuMemory memory_ = 0;
  bool bound_ = false;
  Mapped own_, all_;
};

}  // namespace tutti::cuda_transport
