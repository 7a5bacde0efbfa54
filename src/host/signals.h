// Signals between ranks of one host, on host memory: in its own segment each rank counts what it has sent to each other
// one, and keeps to itself how many of the others' it has taken.
//
// Thread-safety: Send, any thread; Take, the thread that drives the communicator.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "transports/shm/fabric.h"

namespace tutti::host_side {

class HostSignals {
 public:
  // `fabric` outlives this.
  explicit HostSignals(shm::Fabric& fabric) : fabric_(fabric), taken_(static_cast<std::size_t>(fabric.nranks())) {}

  // `peer` sees everything that this thread has written before. REQUIRES: it is on this host, and is woken after that.
  void Send(int peer, std::uint8_t signal) const {
    // Release, and each count continues the others' release sequence: who takes this signal and those of other threads
    // sees what all of them have written before.
    std::atomic_ref(Counts(fabric_.rank(), peer)[signal]).fetch_add(1, std::memory_order_release);
  }
  // Takes `count` signals from `peer`, if they have come.
  bool Take(int peer, std::uint8_t signal, std::uint64_t count) {
    auto& taken = taken_[static_cast<std::size_t>(peer)][signal];
    const auto sent = std::atomic_ref(Counts(peer, fabric_.rank())[signal]).load(std::memory_order_acquire);
    if (sent < taken + count) return false;
    taken += count;
    return true;
  }

 private:
  std::uint64_t* Counts(int writer, int reader) const {
    return reinterpret_cast<std::uint64_t*>(fabric_.segment(writer) + fabric_.layout().SignalsOffset(reader));
  }

  shm::Fabric& fabric_;
  std::vector<std::array<std::uint64_t, ring::kSignals>> taken_;  // by peer
};

}  // namespace tutti::host_side
