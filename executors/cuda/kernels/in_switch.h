// Steps whose data passes a switch between GPUs (schedule.h: sum, multicast). They move whole vectors: slots begin at
// vectors and have room to the end of the last one, whose rest means nothing.
//
// Thread-safety: called by all threads of a block, which share one Move.
#pragma once

#include "executors/cuda/kernels/multimem.h"
#include "executors/cuda/kernels/operands.h"
#include "executors/cuda/kernels/reduction.h"

namespace tutti::cuda_kernels {

inline constexpr std::uint32_t kSwitchVectorsAtOnce = 4;

// The first bytes of a vector, at any address. The loops are unrolled, so that the vector stays in registers.
TUTTI_DEVICE Vector LoadPart(const std::byte* from, std::uint32_t bytes) {
  Vector v{};
  TUTTI_UNROLL
  for (std::uint32_t i = 0; i < kVectorBytes; ++i) {
    if (i < bytes)
      v.words[i / sizeof(std::uint32_t)] |= static_cast<std::uint32_t>(from[i]) << (8 * (i % sizeof(std::uint32_t)));
  }
  return v;
}
TUTTI_DEVICE void StorePart(std::byte* to, const Vector& v, std::uint32_t bytes) {
  TUTTI_UNROLL
  for (std::uint32_t i = 0; i < kVectorBytes; ++i) {
    if (i < bytes)
      to[i] = static_cast<std::byte>(v.words[i / sizeof(std::uint32_t)] >> (8 * (i % sizeof(std::uint32_t))));
  }
}

// Calls load(byte) for each vector of the step's data, and stores what it returns.
template <typename Load>
TUTTI_DEVICE void ForEachVector(const Move& move, bool aligned, Load&& load) {
  const auto bytes = static_cast<std::uint32_t>(move.bytes);
  const auto vectors = static_cast<std::uint32_t>((bytes + kVectorBytes - 1) / kVectorBytes);
  const std::uint32_t step = kSwitchVectorsAtOnce * ThreadCount();
  TUTTI_ROLLED
  for (std::uint32_t first = ThreadIndex(); first < vectors; first += step) {
    Vector values[kSwitchVectorsAtOnce];
    TUTTI_UNROLL
    for (std::uint32_t m = 0; m < kSwitchVectorsAtOnce; ++m) {
      const std::uint32_t v = first + m * ThreadCount();
      values[m] = load((v < vectors ? v : first) * static_cast<std::uint32_t>(kVectorBytes));
    }
    TUTTI_ROLLED
    for (std::uint32_t d = 0; d < move.destination_count; ++d) {
      TUTTI_UNROLL
      for (std::uint32_t m = 0; m < kSwitchVectorsAtOnce; ++m) {
        const std::uint32_t v = first + m * ThreadCount();
        if (v >= vectors) break;
        std::byte* const to = move.destinations[d] + v * kVectorBytes;
        const std::uint32_t left = bytes - v * static_cast<std::uint32_t>(kVectorBytes);
        if (static_cast<std::int32_t>(d) == move.multicast) {
          StoreMulticast(to, values[m]);
        } else if (aligned && left >= kVectorBytes) {
          StoreGlobal(to, values[m]);
        } else {
          StorePart(to, values[m], left < kVectorBytes ? left : static_cast<std::uint32_t>(kVectorBytes));
        }
      }
    }
  }
}

template <typename Codec>
TUTTI_DEVICE Vector Averaged(const Vector& sum, std::int32_t divisor) {
  using T = typename Codec::Memory;
  using Parts = ElementsOf<T, Vector>;
  Vector result{};
  TUTTI_UNROLL
  for (std::uint32_t k = 0; k < Parts::kCount; ++k) {
    Parts::Put(result, k, Codec::Encode(DividedBy(Codec::Decode(Parts::Get(sum, k)), divisor)));
  }
  return result;
}

// The switch's sum and the other sources, which are slots: sums of other hosts.
template <typename Codec>
TUTTI_DEVICE Vector Added(const Move& move, std::uint32_t byte) {
  using T = typename Codec::Memory;
  using Parts = ElementsOf<T, Vector>;
  Vector sum = LoadSum<Codec>(move.sources[0] + byte);
  if (move.source_count == move.summed) return sum;
  typename Codec::Accumulator of[Parts::kCount];
  TUTTI_UNROLL
  for (std::uint32_t k = 0; k < Parts::kCount; ++k) of[k] = Codec::Decode(Parts::Get(sum, k));
  TUTTI_ROLLED
  for (std::uint32_t s = move.summed; s < move.source_count; ++s) {
    const auto other = LoadGlobal<Vector>(move.sources[s] + byte);
    TUTTI_UNROLL
    for (std::uint32_t k = 0; k < Parts::kCount; ++k) of[k] = Add::Combine(of[k], Codec::Decode(Parts::Get(other, k)));
  }
  sum = {};
  TUTTI_UNROLL
  for (std::uint32_t k = 0; k < Parts::kCount; ++k) Parts::Put(sum, k, Codec::Encode(of[k]));
  return sum;
}

// Signed and unsigned integers have the same sums, but not the same quotients.
template <typename Codec>
TUTTI_DEVICE_CALL void AddInSwitch(const Move& move, bool aligned) {
  using Summed = typename SignlessOf<Codec>::Type;
  if constexpr (kAveragedInSwitch<Codec>) {
    if (move.divisor > 1) {
      return ForEachVector(
          move, aligned, [&](std::uint32_t byte) { return Averaged<Codec>(Added<Summed>(move, byte), move.divisor); });
    }
  }
  ForEachVector(move, aligned, [&](std::uint32_t byte) { return Added<Summed>(move, byte); });
}

TUTTI_DEVICE_CALL void CopyInSwitch(const Move& move, bool aligned) {
  const auto bytes = static_cast<std::uint32_t>(move.bytes);
  const std::byte* const from = move.sources[0];
  ForEachVector(move, aligned, [&](std::uint32_t byte) {
    const std::uint32_t left = bytes - byte;
    if (aligned && left >= kVectorBytes) return LoadGlobal<Vector>(from + byte);
    return LoadPart(from + byte, left < kVectorBytes ? left : static_cast<std::uint32_t>(kVectorBytes));
  });
}

// Executes the move of a step that reads a sum, and slots that are added to it, or that copies to a multicast.
TUTTI_DEVICE void CarryInSwitch(const Move& move) {
  if constexpr (!kHasMultimem) return;
  const bool aligned = AlignmentOf<Dense>(move).All(kVectorBytes);
  FenceAliases();  // after what the step has waited for
  if (move.summed == 0) {
    CopyInSwitch(move, aligned);
  } else {
    VisitCodec(TypeOfReducer(move.reducer), [&](auto codec) {
      if constexpr (kAddedInSwitch<decltype(codec)>) AddInSwitch<decltype(codec)>(move, aligned);
    });
  }
  FenceAliases();  // before what it publishes
}

}  // namespace tutti::cuda_kernels
