// Rings between GPUs of different hosts: each rank keeps its rings to and from every rank of other hosts in pinned
// memory of its own host. Its GPU fills and empties them; a network engine is at their other ends.
//
// Thread-safety: immutable after construction; what the rings hold belongs to their ends.
#pragma once

#include <vector>

#include "transports/cuda/layout.h"
#include "transports/cuda/resources.h"
#include "transports/cuda/ring.h"
#include "transports/progress/network_peer.h"
#include "transports/shm/fabric.h"

namespace tutti::cuda_transport {

// All of a rank's slots for other hosts, both ways, at any number of ranks: with 16 ranks and 28 channels a slot holds
// 78 KB.
inline constexpr std::size_t kPinnedPoolBytes = std::size_t{256} << 20;

class PinnedRings {
 public:
  // Makes `channels` rings each way for every rank that `shm` has on another host. Slots hold at most `most_capacity`
  // bytes, the same on every rank. Throws tuttiUnhandledCudaError.
  PinnedRings(const CudaDriver& driver, CuContext context, const shm::Fabric& shm, int channels,
              std::size_t most_capacity);

  std::size_t capacity() const { return shape_.capacity; }
  // The rings by channel, for the network engine.
  std::vector<progress::ConnectionRings> With(int peer) const;

  // The GPU's ends; the fill end's pointer to its reader is not set.
  struct Ends {
    DeviceFillEnd fill;
    DeviceReader reader;
    DeviceEmptyEnd empty;
  };
  Ends EndsWith(int channel, int peer) const;

 private:
  std::size_t Ring(int channel, int peer, bool outgoing) const {
    return (static_cast<std::size_t>(place_of_[static_cast<std::size_t>(peer)]) * channels_ + channel) * 2 + outgoing;
  }
  std::byte* Slots(int channel, int peer, bool outgoing) const;
  std::uint32_t* Head(int channel, int peer, bool outgoing) const;

  int channels_;
  std::vector<int> place_of_;  // by rank: its index among ranks of other hosts
  ring::SlotShape shape_;
  std::size_t slots_at_ = 0;  // after the heads, one line each
  CudaMemory memory_;
};

}  // namespace tutti::cuda_transport
