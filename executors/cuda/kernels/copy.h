// Copies: one source to all destinations, in units as wide as their alignments allow.
//
// Thread-safety: called by all threads of a block, which share one Move.
#pragma once

#include "executors/cuda/kernels/line128_batch.h"
#include "executors/cuda/kernels/operands.h"
#include "executors/cuda/kernels/units.h"

namespace tutti::cuda_kernels {

inline constexpr std::uint32_t kCopiesInFlight = 8;  // units per thread
// Finding a place is a call, which needs registers besides those of the units in flight.
template <typename Layout>
inline constexpr std::uint32_t kInFlight = std::is_same_v<Layout, Dense> ? kCopiesInFlight : kCopiesInFlight / 2;

template <typename Layout, typename Unit>
TUTTI_DEVICE void CopyUnits(const Move& move, const Units& units) {
  ForEachBatch<Unit, kInFlight<Layout>>(units, move.share, [&](const auto& batch) {
    Unit values[kInFlight<Layout>];
    batch.Load(Layout::Source(move, 0), values);
    TUTTI_ROLLED
    for (std::uint32_t d = 0; d < move.destination_count; ++d) batch.Store(Layout::Destination(move, d), values);
  });
}

// Copies the units from the first multiple of their size on; returns the bytes before and after them.
template <typename Layout, typename Unit>
TUTTI_DEVICE Units CopyBody(const Move& move, const Alignment& alignment) {
  const auto bytes = static_cast<std::uint32_t>(move.bytes);
  const std::uint32_t head = alignment.ToNext(sizeof(Unit));
  if (bytes < head + sizeof(Unit)) return {bytes};
  const std::uint32_t units = (bytes - head) / sizeof(Unit);
  const auto body = static_cast<std::uint32_t>(units * sizeof(Unit));
  CopyUnits<Layout, Unit>(move, {units, head});
  return {bytes - body, 0, head, body};
}

// Four pairs take as many registers as four vectors, and the places of their words some more.
template <typename Layout>
inline constexpr std::uint32_t kLinesInFlight = kInFlight<Layout> / 2;

// Executes the copy of a step whose slots are lines. False if told to stop.
template <typename Layout>
TUTTI_DEVICE_CALL bool CopyLines(const Move& move) {
  constexpr std::uint32_t kMany = kLinesInFlight<Layout>;
  return ForEachLine128Batch<Layout, kMany>(move, [&](std::uint32_t taken, bool aligned) {
    const Line128Batch<Layout, kMany> batch(move, taken, aligned);
    Vector values[kMany];
    if (!batch.Load(0, values)) return false;
    batch.StoreEverywhere(values);
    return true;
  });
}

// False if told to stop.
template <typename Layout>
TUTTI_DEVICE_CALL bool Copy(const Move& move) {
  if (move.packets) {
    return ForEachPacket<Layout>(move, [&](std::uint32_t p, std::uint32_t bytes, bool aligned, std::uint64_t* word) {
      return LoadSource<Layout>(move, 0, p, bytes, aligned, word);
    });
  }
  const Alignment alignment = AlignmentOf<Layout>(move);
  Units bytes{static_cast<std::uint32_t>(move.bytes)};
  if (alignment.Alike(kVectorBytes)) {
    bytes = CopyBody<Layout, Vector>(move, alignment);
  } else if (alignment.Alike(sizeof(std::uint32_t))) {
    bytes = CopyBody<Layout, std::uint32_t>(move, alignment);
  } else if (alignment.Alike(sizeof(std::uint16_t))) {
    bytes = CopyBody<Layout, std::uint16_t>(move, alignment);
  }
  CopyUnits<Layout, std::uint8_t>(move, bytes);
  return true;
}

template <typename Layout>
TUTTI_DEVICE bool CopyBy(const Move& move) {
  return move.lines ? CopyLines<Layout>(move) : Copy<Layout>(move);
}

}  // namespace tutti::cuda_kernels
