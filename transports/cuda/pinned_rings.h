// Rings between GPUs of different hosts: each rank keeps its rings to and from every rank of other hosts in pinned
// memory of its own host. Its GPU fills and empties them; a network engine is at their other ends.
//
// Where NICs reach the GPU's memory, the slots' data lie there, and only headers and counts in pinned memory: the engine
// reads and writes these itself.
//
// Address space is reserved for all rings, but memory only for those that plans use. So slots are long at any number
// of ranks. Rings in memory of the host may receive from the beginning: only the GPU needs it to be pinned. A ring whose data
// lie in the GPU's memory receives from the first call that uses it: a peer that is ahead of this rank waits until then.
//
// Thread-safety: Pin() by one thread at a time; all else is immutable after construction. What the rings hold belongs to
// their ends.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "transports/cuda/cuda_device.h"
#include "transports/cuda/direct_memory.h"
#include "transports/cuda/layout.h"
#include "transports/cuda/ring.h"
#include "transports/progress/network_peer.h"
#include "transports/shm/fabric.h"

namespace tutti::cuda_transport {

// A rank's rings with one peer in one channel, both ways.
struct RingPair {
  int channel;
  int peer;
  friend auto operator<=>(const RingPair&, const RingPair&) = default;
};

class PinnedRings {
 public:
  struct Place {
    int memory_node;             // of the host's memory
    bool direct;                 // the data lie in the GPU's memory (DirectMemory)
    std::size_t bytes_at_first;  // are taken at once, but at least one pair's
  };

  // Makes `channels` rings each way for every rank that `shm` has on another host. Slots hold at most `most_capacity`
  // bytes, the same on every rank. Throws tuttiSystemError, tuttiUnhandledCudaError.
  PinnedRings(const CudaDevice& device, const shm::Fabric& shm, int channels, std::size_t most_capacity,
              const Place& place);
  std::size_t capacity() const { return shape_.capacity; }
  // Of the GPU's memory.
  std::size_t device_bytes() const { return direct_ ? direct_->bytes() : 0; }
  // The rings by channel, for the network engine.
  std::vector<progress::ConnectionRings> With(int peer) const;
  // Pins those that are not yet, so that the GPU may use them. The driver may wait for running kernels, but it has nothing
  // to do for those that are pinned at first. Throws tuttiUnhandledCudaError.
  void Pin(const std::set<RingPair>& pairs);

  // The GPU's ends; the fill end's pointer to its reader is not set.
  struct Ends {
    DeviceFillEnd fill;
    DeviceReader reader;
    DeviceEmptyEnd empty;
  };
  Ends EndsWith(int channel, int peer) const;

 private:
  std::size_t Pair(int channel, int peer) const;
  std::byte* Begin(int channel, int peer) const { return memory_.data() + Pair(channel, peer) * pair_bytes_; }
  progress::RingMemory Ring(int channel, int peer, bool outgoing) const;
  std::uint32_t* Head(int channel, int peer, bool outgoing) const;
  bool Pinned(std::size_t pair) const;
  // Pairs from `begin` to before `end`.
  void PinRange(std::size_t begin, std::size_t end);

  const CudaDevice& device_;
  int channels_;
  int places_ = 0;             // ranks of other hosts
  std::vector<int> place_of_;  // by rank: its index among them
  ring::SlotShape shape_;
  std::size_t pair_bytes_;  // whole pages
  std::size_t data_bytes_;  // of a ring's data on the GPU, whole pages
  shm::Segment memory_;     // by channel, then by peer; of each pair its heads, a line each, and its slots
  struct PinnedRange {
    PinnedRange(std::size_t before, const CudaDevice& device, std::byte* begin, std::size_t bytes)
        : end(before), pages(device.driver(), device.context(), begin, bytes) {}

    std::size_t end;
    PinnedPages pages;
  };
  std::map<std::size_t, PinnedRange> pinned_;  // pairs, by the first of a range
  std::optional<DirectMemory> direct_;  // in the same order: of each pair the data that arrive, and those that leave
};

}  // namespace tutti::cuda_transport
