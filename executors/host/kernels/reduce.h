// The host executor's arithmetic: any number of sources reduced in one pass over memory, into any number of
// destinations.
//
// destination[i] = final(((c0[i] + c1[i]) + c2[i]) + ...) with c_s[i] = source s's element, or its product with
// `scalar`. The order is that of `sources`, always. The bits of the result depend on the elements alone: not on the
// machine's vector width, the pointers' alignment, an element's place, the number of destinations or how they are
// written.
//
// - Integers: sum and product wrap; division truncates toward zero.
// - 8- and 16-bit floats accumulate in fp32 and are rounded once, at the end (base/numbers/lowp.h: how, and what
// saturates).
// - min, max: IEEE 754-2019 minimum and maximum. -0 < +0, and one NaN among the sources makes a NaN.
// - A NaN result is the type's canonical one (fp32 0x7fc00000, fp64 0x7ff8000000000000, 16-bit 0x7fff, fp8 0x7f),
//   whatever the signs and payloads of the sources. A copy of one source is no reduction and keeps its bits.
// - Never contracted to fused multiply-add, never reassociated.
// - The thread's floating-point modes apply as they are: with flush to zero, fp32, fp64 and bf16 sums flush subnormals.
//   min and max return one of the sources' elements or a zero in any mode.
//
// Thread-safety: pure functions of their arguments. Nothing allocates, locks or throws.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tutti/tutti.h"

namespace tutti::host_kernels {

// One element of any datatype, as bytes.
struct Scalar {
  alignas(8) std::array<std::byte, 8> bytes{};

  // REQUIRES: `element` points to `size` <= 8 readable bytes.
  static Scalar From(const void* element, std::size_t size) {
    Scalar scalar;
    std::memcpy(scalar.bytes.data(), element, size);
    return scalar;
  }
};

inline constexpr int kMaxReduceSources = 64;
inline constexpr int kMaxReduceDestinations = 16;

// REQUIRES: 1 <= source_count <= kMaxReduceSources; 1 <= destination_count <= kMaxReduceDestinations. Pointers are
// aligned to the element, not to vectors. A destination may be a source (in place), and otherwise overlaps nothing.
struct ReduceCall {
  const void* const* sources = nullptr;
  int source_count = 0;
  void* const* destinations = nullptr;
  int destination_count = 0;
  std::size_t count = 0;  // elements
  std::uint32_t streamed =
      0;  // bit d: destination d is written past the caches; StreamFence() (copy.h) before publishing
  // Only with sum: scaling each contribution (PreMulSum) and the final division (average).
  // Bit s: source s is multiplied by `scalar` first, in the accumulator's type, and the product rounded to the
  // datatype: the same bits whether a rank scales its own contribution here or sends it scaled.
  std::uint64_t scaled = 0;
  Scalar scalar;    // one element of the datatype
  int divisor = 0;  // above 1: the accumulated result is divided by it before the one final rounding
};

using ReduceFunction = void (*)(const ReduceCall&);

// The kernel for this machine, to be resolved once per plan. Never null.
// REQUIRES: IsDataType(type); op is sum, prod, max or min (average is sum with a divisor).
ReduceFunction SelectReduce(tuttiDataType_t type, tuttiRedOp_t op);

}  // namespace tutti::host_kernels
