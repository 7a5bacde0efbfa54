// How the GPUs of ranks reach each other: every rank lends a piece of its GPU's memory, which the others of its host
// use directly - the same GPU, peer access in one process, CUDA IPC between processes. Two GPUs of a host that cannot
// reach each other meet in its pinned memory; those of different hosts have rings in pinned memory of both
// (pinned_rings.h).
//
// Thread-safety: getters may be called from any thread. The rings' ends are on the GPU.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "transports/cuda/layout.h"
#include "transports/cuda/pinned_rings.h"
#include "transports/cuda/resources.h"
#include "transports/cuda/ring.h"
#include "transports/shm/fabric.h"

namespace tutti::cuda_transport {

// A rank's GPU. Its primary context is held while this lives.
class CudaDevice {
 public:
  // Throws tuttiInvalidArgument if there is no such device.
  CudaDevice(const CudaDriver& driver, int ordinal);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CudaDriver& driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  CuContext context() const { return context_; }
  const CuUuid& uuid() const { return uuid_; }
  int Attribute(int attribute) const;
  bool IsSame(const CuUuid& uuid) const;
  // Whether kernels here can use the other's memory; enables it if so.
  bool Reaches(const CudaDevice& other) const;

 private:
  const CudaDriver& driver_;
  int ordinal_;
  CuDevice device_ = 0;
  CuContext context_ = nullptr;
  CuUuid uuid_{};
};

// The data by which another process opens a buffer: its allocation's handle, and the buffer's offset in that.
struct ShareableBuffer {
  CuIpcHandle handle;
  std::uint64_t offset;
};
// Null if [buffer, buffer + bytes) is not inside one allocation of cudaMalloc.
std::optional<ShareableBuffer> ShareableBufferOf(const CudaDevice& device, const void* buffer, std::size_t bytes);

// Memory of another process's GPU, opened here.
class OpenedMemory {
 public:
  OpenedMemory() = default;
  // Throws tuttiUnhandledCudaError.
  OpenedMemory(const CudaDevice& device, const CuIpcHandle& handle);
  OpenedMemory(OpenedMemory&& other) noexcept { *this = std::move(other); }
  OpenedMemory& operator=(OpenedMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~OpenedMemory();
  // The beginning of the part that its owner offers. Throws tuttiInternalError if that part is not all inside the
  // memory, as far as the driver knows its size.
  std::byte* Part(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  const CudaDevice* device_ = nullptr;
  std::byte* data_ = nullptr;
};

// Shared memory of the host that a GPU also uses.
class PinnedSegment {
 public:
  // Throws tuttiUnhandledCudaError.
  PinnedSegment(const CudaDevice& device, shm::Segment segment);
  ~PinnedSegment();
  PinnedSegment(const PinnedSegment&) = delete;
  PinnedSegment& operator=(const PinnedSegment&) = delete;
  // The address by which the GPU reaches it.
  std::byte* data() const { return data_; }

 private:
  const CudaDevice& device_;
  shm::Segment segment_;
  std::byte* data_ = nullptr;
};

class DeviceFabric {
 public:
  // Collective. `shm` connects the same ranks; it and `device` outlive this. Throws tuttiUnhandledCudaError.
  // `p2p`: this rank's GPU and others may use each other's memory, if they can. `lines128`: there are slots of lines of
  // 128 bytes, if all ranks reach each other; the same on all ranks. `count_from`: what the counts of slots
  // between GPUs of one host begin at, modulo 2^32; the same on all ranks.
  DeviceFabric(const CudaDevice& device, int channels, const shm::Fabric& shm, bool p2p, bool lines128,
               std::uint32_t count_from, const shm::AllGather& all_gather, Deadline deadline);

  // Keeps the memory that peers use alive for the rest of this process.
  void Abandon();

  const DeviceLayout& layout() const { return layout_; }
  // Ranks of this process on this GPU.
  const std::vector<int>& fused() const { return fused_; }
  // All data stays on one GPU.
  bool one_device() const { return one_device_; }
  bool one_process() const { return one_process_; }
  // Every rank's GPU can read every other's memory.
  bool all_reach() const { return all_reach_; }
  // Ranks that a post reaches: this host's, except this rank.
  int readers_of_posts() const { return static_cast<int>(shm_.local().size()) - 1; }
  bool by_network(int peer) const { return !shm_.is_local(peer); }
  // Rings to GPUs of other hosts; null where there are none.
  const PinnedRings* across() const { return across_ ? &*across_ : nullptr; }
  // Data bytes of any slot of lines of 128 bytes; 0: there are none.
  std::size_t line128_capacity() const { return all_reach_ ? layout_.line128_capacity() : 0; }
  // Data bytes of any bulk slot.
  std::size_t bulk_capacity() const { return across_ ? across_->capacity() : layout_.bulk_capacity(); }

  // This rank's ends, in its GPU's memory, and indices into them: of `peer`'s rings and posts, and of this rank's post.
  DeviceFillEnd* fills() const { return reinterpret_cast<DeviceFillEnd*>(ends_.data() + fills_at_); }
  DeviceEmptyEnd* empties() const { return reinterpret_cast<DeviceEmptyEnd*>(ends_.data()); }
  std::uint32_t To(int channel, ring::Protocol protocol, int peer) const { return FillIndex(channel, protocol, peer); }
  std::uint32_t Post(int channel, ring::Protocol protocol) const { return FillIndex(channel, protocol, nranks_); }
  std::uint32_t From(int channel, ring::Protocol protocol, int peer) const {
    return EmptyIndex(channel, protocol, peer, false);
  }
  std::uint32_t PostOf(int channel, ring::Protocol protocol, int peer) const {
    return EmptyIndex(channel, protocol, peer, true);
  }

 private:
  struct Peer {
    std::unique_ptr<CudaDevice> gpu;      // another one in this process
    std::shared_ptr<CudaMemory> shared;   // of a rank of this process: stays while any rank uses it
    OpenedMemory opened;                  // in another process
    std::shared_ptr<PinnedSegment> host;  // its pinned memory, where that is needed
    std::byte* device = nullptr;          // its memory, as our GPU reaches it; null if it does not
    std::byte* pinned = nullptr;          // likewise
  };
  struct Introduction;

  std::uint32_t FillIndex(int channel, ring::Protocol protocol, int peer) const {
    return static_cast<std::uint32_t>((channel * ring::kProtocols + static_cast<int>(protocol)) * (nranks_ + 1) + peer);
  }
  std::uint32_t EmptyIndex(int channel, ring::Protocol protocol, int peer, bool post) const {
    const int row = (channel * ring::kProtocols + static_cast<int>(protocol)) * 2 + post;
    return static_cast<std::uint32_t>(row * nranks_ + peer);
  }
  void ReachPeers(const std::vector<Introduction>& all, bool p2p);
  void CompareReach(const shm::AllGather& all_gather);
  void MeetInHostMemory(std::uint32_t count_from, const shm::AllGather& all_gather, Deadline deadline);
  void MakeEnds(std::uint32_t count_from);
  // `owner`'s memory that it shares with `other` (one of the two is this rank), as our GPU reaches it.
  std::byte* Shared(int owner, int other) const;

  const CudaDevice& device_;
  const shm::Fabric& shm_;
  int rank_, nranks_;
  DeviceLayout layout_;
  std::optional<PinnedRings> across_;
  std::shared_ptr<CudaMemory> memory_;
  CudaMemory ends_;
  std::size_t fills_at_ = 0;
  std::vector<Peer> peers_;
  std::vector<std::vector<bool>> reach_;  // [from][to], symmetric; true also between hosts, which do not meet at all
  std::vector<int> fused_;
  bool one_device_ = true, one_process_ = true, all_reach_ = true;
};

}  // namespace tutti::cuda_transport
