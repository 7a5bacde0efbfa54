// Reductions of strided operands. A part of each strided source is first copied to a dense staging area, and a strided
// result is reduced into one and copied from there, so that reductions are compiled for dense operands alone. (For both,
// the kernel was more than twice as large.) A part stays in the second-level cache.
//
// Thread-safety: called by all threads of a block, which share one Move.
#pragma once

#include "executors/cuda/kernels/copy.h"

namespace tutti::cuda_kernels {

template <typename Unit, typename From, typename To>
TUTTI_DEVICE void TransferUnits(const From& from, const To& to, const Units& units) {
  ForEachBatch<Unit, kInFlight<Walked>>(units, Share{}, [&](const auto& batch) {
    Unit values[kInFlight<Walked>];
    batch.Load(from, values);
    batch.Store(to, values);
  });
}

// Copies `bytes` in units as wide as the walk's places allow. The first byte lies at a multiple of a vector in the step.
template <typename From, typename To>
TUTTI_DEVICE void Transfer(const From& from, const To& to, const Walk& walk, std::uint32_t bytes) {
  Alignment alignment;
  alignment.See(walk.buffer, walk);
  Units rest{bytes};
  const auto in_units_of = [&](auto unit) {
    using Unit = decltype(unit);
    const auto count = static_cast<std::uint32_t>(bytes / sizeof(Unit));
    TransferUnits<Unit>(from, to, {count});
    rest.from_byte = count * static_cast<std::uint32_t>(sizeof(Unit));
    rest.count = bytes - rest.from_byte;
  };
  // Whole units only where every place is a multiple of their size, and no run ends inside one.
  if (alignment.All(kVectorBytes)) {
    in_units_of(Vector{});
  } else if (alignment.All(sizeof(std::uint32_t))) {
    in_units_of(std::uint32_t{});
  } else if (alignment.All(sizeof(std::uint16_t))) {
    in_units_of(std::uint16_t{});
  }
  TransferUnits<std::uint8_t>(from, to, rest);
}

// Lines of a part, an even number of them.
inline constexpr std::uint32_t kStagedLines = kStagedBytes / (2 * kLine128Data) * 2;
static_assert(kStagedLines * kLine128Data % kVectorBytes == 0);

// Calls part() with dense operands for one part of the move after the other. False if part() is, in any thread.
template <typename Part>
TUTTI_DEVICE bool InParts(Move& move, Part&& part) {
  const auto all = static_cast<std::uint32_t>(move.bytes);
  // A part is whole packets or lines, and whole vectors.
  const std::uint32_t part_bytes = move.lines ? kStagedLines * kLine128Data : kStagedBytes;
  const auto advance = [&](std::uint64_t number, std::uint32_t bytes) -> std::size_t {
    if (number == 0) return bytes;
    return move.lines ? bytes / kLine128Data * kLine128Bytes : bytes / kPacketData * kPacketBytes;
  };
  std::uint32_t before = 0;  // bytes of the part before
  TUTTI_ROLLED
  for (std::uint32_t begin = 0; begin < all; begin += part_bytes) {
    const std::uint32_t bytes = all - begin < part_bytes ? all - begin : part_bytes;
    Sync();  // no thread reads the staging or the Move any more
    std::byte* area = move.staging;
    TUTTI_ROLLED
    for (std::uint32_t s = 0; s < move.source_count; ++s) {
      const Walk& walk = move.source_walks[s];
      const bool strided = move.source_numbers[s] == 0 && walk.strided != nullptr;
      if (strided) Transfer(PartPlaces{walk, begin}, DensePlaces<std::byte>{area}, walk, bytes);
      if (ThreadIndex() == 0) {
        move.sources[s] = strided ? area : move.sources[s] + advance(move.source_numbers[s], before);
      }
      if (strided) area += kStagedBytes;
    }
    if (ThreadIndex() == 0) {
      std::byte* result = area;
      TUTTI_ROLLED
      for (std::uint32_t d = 0; d < move.destination_count; ++d) {
        const bool strided = move.destination_numbers[d] == 0 && move.destination_walks[d].strided != nullptr;
        move.destinations[d] = strided ? result : move.destinations[d] + advance(move.destination_numbers[d], before);
        if (strided) result += kStagedBytes;
      }
      move.bytes = bytes;
    }
    before = bytes;
    Sync();
    if (SyncOr(!part())) return false;
    TUTTI_ROLLED
    for (std::uint32_t d = 0; d < move.destination_count; ++d) {
      const Walk& walk = move.destination_walks[d];
      if (move.destination_numbers[d] != 0 || walk.strided == nullptr) continue;
      Transfer(DensePlaces<const std::byte>{area}, PartPlaces{walk, begin}, walk, bytes);
      area += kStagedBytes;
    }
  }
  return true;
}

}  // namespace tutti::cuda_kernels
