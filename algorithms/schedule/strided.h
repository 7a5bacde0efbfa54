// A buffer whose elements are not contiguous: a tensor, or a part of one. Its *packed* bytes, the elements in row-major
// order, are moved; this file says where each of them lies, so that no packing is needed. Algorithms, protocols, prices
// and proofs are those of the plain collectives. Peers read slots, not a strided tensor, so its side has no zero-copy.
//
// The host walks from run to run with a cursor; each GPU thread computes its own places. The code for both is constant
// expressions, so that one compiler's tests hold for the other's code.
//
// Thread-safety: value types, immutable but for the cursor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/numbers/divisor.h"

namespace tutti::schedule {

// One dimension of a tensor, in elements or bytes as its user says.
struct StridedDim {
  std::size_t size = 1;
  std::size_t stride = 1;  // from an index to the next
};

// Copied to GPUs as it is, sixteen bytes at a time.
class alignas(16) Strided {
 public:
  // Eight dimensions of a tensor, and one for the ranks' blocks.
  static constexpr std::size_t kMostDims = 9;

  // One of the remaining dimensions, in bytes.
  struct Dim {
    Divisor size;
    std::size_t stride;
  };
  // A packed byte: the number of its run, in packed order, and its offset in the run.
  struct Position {
    std::size_t run, in_run;
  };

  Strided() = default;
  // `dims`, the outermost first, in elements of `element_bytes`. Neighbouring dimensions that form one piece become
  // one. REQUIRES: no size is 0; at most kMostDims of them.
  Strided(std::span<const StridedDim> dims, std::size_t element_bytes);

  // Whether packed offsets are offsets in the buffer.
  constexpr bool dense() const { return outer_ == 0; }
  // The length of every contiguous run.
  constexpr std::size_t run_bytes() const { return run_.value(); }
  // The dimensions around the runs, the innermost first.
  std::span<const Dim> outer() const { return {dims_.data(), outer_}; }
  // Every power of two that divides this divides the run length and each run's offset from the buffer's start.
  constexpr std::size_t grain() const { return grain_; }

  // REQUIRES, of these: not dense().
  constexpr Position At(std::size_t packed) const { return Further({0, 0}, packed); }
  constexpr Position Further(Position from, std::size_t bytes) const {
    const std::size_t in_runs = from.in_run + bytes, runs = run_.Quotient(in_runs);
    return {from.run + runs, in_runs - runs * run_bytes()};
  }
  // Bytes from the buffer's start. REQUIRES: the position is less than the buffer's packed bytes.
  constexpr std::size_t PlaceOf(Position position) const {
    std::size_t place = position.in_run;
    ForEachIndex(position.run, [&](std::size_t d, std::size_t index) { place += index * dims_[d].stride; });
    return place;
  }

 private:
  friend class StridedCursor;

  // Calls function(d, index) with a run's index in each dimension.
  template <typename Function>
  constexpr void ForEachIndex(std::size_t run, Function&& function) const {
    std::size_t d = 0;
    for (; d + 1 < outer_; ++d) {
      const std::size_t outside = dims_[d].size.Quotient(run);
      function(d, run - outside * dims_[d].size.value());
      run = outside;
    }
    function(d, run);
  }

  std::array<Dim, kMostDims> dims_{};  // the outer ones, innermost first
  std::size_t outer_ = 0;
  Divisor run_;
  std::size_t grain_ = 0;
};

// Walks through packed bytes.
class StridedCursor {
 public:
  StridedCursor() = default;
  // REQUIRES: `packed` is less than the buffer's packed bytes. The buffer outlives the cursor.
  StridedCursor(const Strided& buffer, std::size_t packed);

  // Bytes from the buffer's start to the cursor's byte.
  std::size_t place() const { return place_ + in_run_; }
  // Contiguous bytes from here on.
  std::size_t left() const { return buffer_->run_bytes() - in_run_; }
  // REQUIRES: bytes <= left(). May go past the last byte, after which the cursor is of no use.
  void Advance(std::size_t bytes);

 private:
  const Strided* buffer_ = nullptr;
  std::array<std::size_t, Strided::kMostDims> index_{};  // as Strided::dims_
  std::size_t place_ = 0;                                // of the run
  std::size_t in_run_ = 0;
};

// Whether two buffers have a byte in common; `second` begins `distance` bytes behind `first`. True also if too many
// pairs of rows would have to be compared to tell.
bool HaveCommonBytes(const Strided& first, const Strided& second, std::ptrdiff_t distance);

}  // namespace tutti::schedule
