// Memory where backwards of two parts add gradients: two places that units take in turn, so that one unit's gradients
// are reduced while the next one's are computed.
//
// Thread-safety: one thread at a time.
#pragma once

#include <array>
#include <cstddef>

#include "parallel/sharded/unit_layout.h"

namespace tutti::parallel {

class GradientPlaces {
 public:
  // Both outlive this.
  GradientPlaces(Compute& compute, MemoryAccount& memory) : compute_(compute), memory_(memory) {}

  // The place of one more unit, which is to be large enough for all of its gradients.
  std::size_t Assign(const UnitLayout& unit);
  // Takes memory for both places, unless they have it. REQUIRES: a unit has been assigned.
  void Make();
  void Free() { places_ = {}; }

  // All gradients of the unit at its place, [count()]; without memory before Make().
  Tensor Of(const UnitLayout& unit, std::size_t place) const;

 private:
  Compute& compute_;
  MemoryAccount& memory_;
  std::array<Buffer, 2> places_;
  std::array<std::size_t, 2> bytes_{};
  std::size_t assigned_ = 0;  // units
};

}  // namespace tutti::parallel
