#include "src/host/signals.h"

#include <atomic>

namespace tutti::host_side {

void HostSignals::Send(int peer, std::uint8_t signal) const {
  // Release, and each count continues the others' release sequence: who takes this signal and those of other threads
  // sees what all of them have written before.
  std::atomic_ref(Counts(fabric_.rank(), peer)[signal]).fetch_add(1, std::memory_order_release);
}

bool HostSignals::Take(int peer, std::uint8_t signal, std::uint64_t count) {
  auto& taken = taken_[static_cast<std::size_t>(peer)][signal];
  const auto sent = std::atomic_ref(Counts(peer, fabric_.rank())[signal]).load(std::memory_order_acquire);
  if (sent < taken + count) return false;
  taken += count;
  return true;
}

}  // namespace tutti::host_side
