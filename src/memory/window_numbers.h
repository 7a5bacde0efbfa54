// The numbers of windows. All ranks register a window together, under one number; each deregisters it on its own. A
// number is free again when no rank has it any more.
//
// Thread-safety: used by one thread at a time. Other ranks' numbers are read from their control blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transports/shm/fabric.h"

namespace tutti::memory {

class WindowNumbers {
 public:
  // Sent to the other ranks when a window is registered.
  using Taken = std::array<std::uint64_t, ring::kWindowWords>;

  explicit WindowNumbers(const shm::Fabric& fabric) : fabric_(fabric) {}

  Taken taken() const;
  // The lowest number that no rank has. Throws tuttiInvalidUsage if all `most` are taken.
  static std::uint16_t Free(std::span<const Taken> all, std::size_t most);
  // This rank has the number from now on, or no longer.
  void Take(std::uint16_t number) const;
  void Release(std::uint16_t number) const;
  // Whether another rank of this host may still refer to its part of the window. False means that it no longer reads or
  // sends what it registered.
  bool OthersHave(std::uint16_t number) const;

 private:
  const shm::Fabric& fabric_;
};

}  // namespace tutti::memory
