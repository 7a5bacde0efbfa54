// Counts the memory of a rank's training state, by its purpose, where it is made and given back, so that a formula's
// promise can be compared with the memory taken.
//
// Source of the kinds: Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models".
//
// Thread-safety: one thread at a time.
#pragma once

#include <array>
#include <cstddef>

#include "tutti/parallel/compute.h"

namespace tutti::parallel {

enum class MemoryKind { parameters, gradients, optimizer_state };

class TUTTI_API MemoryAccount {
 public:
  MemoryAccount() = default;
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  // Counted until it is destroyed; this outlives it.
  Buffer make(MemoryKind kind, Compute& compute, Shape shape, tuttiDataType_t dtype = tuttiFloat32);

  // Bytes of tensors, without the rounding up of their memory.
  std::size_t now(MemoryKind kind) const { return counts_[static_cast<std::size_t>(kind)].now; }
  std::size_t peak(MemoryKind kind) const { return counts_[static_cast<std::size_t>(kind)].peak; }
  // All kinds together.
  std::size_t now() const { return all_.now; }
  std::size_t peak() const { return all_.peak; }

 private:
  struct Count {
    std::size_t now = 0, peak = 0;
    void Add(std::size_t bytes);
  };

  std::array<Count, 3> counts_;  // by kind
  Count all_;
};

}  // namespace tutti::parallel
