// One step's data: where it is, how it is aligned, and how its packets are waited for.
//
// Thread-safety: called by all threads of a block, which share one Move.
#pragma once

#include "executors/cuda/packet.h"

namespace tutti {

inline constexpr std::uint32_t kMoveSources = 64;
// A step's writes and, for a post by packets, every reader.
inline constexpr std::uint32_t kMoveDestinations = 80;

struct Move {
  const std::byte* sources[kMoveSources];
  std::byte* destinations[kMoveDestinations];
  std::uint32_t source_numbers[kMoveSources];  // of packets; 0: the source is memory
  std::uint32_t destination_numbers[kMoveDestinations];
  std::uint64_t scaled;  // bit s: source s is multiplied by `scalar` first
  std::uint64_t scalar;
  std::uint64_t bytes;
  const std::uint32_t* stop;   // looked at while packets do not come
  const std::uint32_t* abort;  // pinned: seldom looked at
  std::uint32_t source_count, destination_count;
  std::int32_t divisor;  // above 1: the result is divided by it
  std::uint32_t reducer;
  bool arithmetic;  // otherwise the one source is copied
  bool packets;     // some source or destination is
};

// A look at the host's memory takes a trip over PCIe: one in so many polls of a few hundred ns each.
inline constexpr std::uint32_t kPollsPerLook = 1024;

// True if nobody need wait any longer.
TUTTI_DEVICE bool Stopped(const std::uint32_t* stop, const std::uint32_t* abort) {
  return LoadRelaxed(stop) != 0 || LoadRelaxed(abort) != 0;
}

// Polls until ready(); false if told to stop before.
template <typename Ready>
TUTTI_DEVICE bool AwaitUntil(const std::uint32_t* stop, const std::uint32_t* abort, Ready&& ready) {
  TUTTI_ROLLED
  for (std::uint32_t polls = 1; !ready(); ++polls) {
    if (polls % kPollsPerLook == 0 && Stopped(stop, abort)) return false;
    Pause();
  }
  return true;
}

TUTTI_DEVICE bool AwaitPacket(const Move& move, std::uint32_t source, std::uint64_t index, std::uint64_t* data) {
  const std::byte* const packet = move.sources[source] + index * kPacketBytes;
  const std::uint32_t number = move.source_numbers[source];
  return AwaitUntil(move.stop, move.abort, [&] { return LoadPacket(packet, number, data); });
}

// How all that is memory lies. (Packets always lie at multiples of their size.)
class Alignment {
 public:
  TUTTI_DEVICE explicit Alignment(const Move& move) {
    bool any = false;
    const auto see = [&](const std::byte* pointer, std::uint32_t packet_number) {
      if (packet_number != 0) return;
      const auto low = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pointer)) % kVectorBytes;
      if (!any) low_ = low;
      any = true;
      difference_ |= low ^ low_;
    };
    TUTTI_ROLLED
    for (std::uint32_t s = 0; s < move.source_count; ++s) see(move.sources[s], move.source_numbers[s]);
    TUTTI_ROLLED
    for (std::uint32_t d = 0; d < move.destination_count; ++d) see(move.destinations[d], move.destination_numbers[d]);
  }

  // For widths that are powers of two, at most a vector's: does everything lie at a multiple, equally far behind one,
  // and how many bytes is it from there to the next?
  TUTTI_DEVICE bool All(std::uint32_t width) const { return (low_ | difference_) % width == 0; }
  TUTTI_DEVICE bool Alike(std::uint32_t width) const { return difference_ % width == 0; }
  TUTTI_DEVICE std::uint32_t ToNext(std::uint32_t width) const { return (width - low_ % width) % width; }

 private:
  std::uint32_t low_ = 0;
  std::uint32_t difference_ = 0;
};

// ---------------------------------------------------------------------------------------------------- packets --

// Up to 8 bytes at any address, as a word.
TUTTI_DEVICE std::uint64_t LoadWord(const std::byte* from, std::uint32_t bytes, bool aligned) {
  if (aligned && bytes == kPacketData) return *reinterpret_cast<const std::uint64_t*>(from);
  std::uint64_t word = 0;
  TUTTI_ROLLED
  for (std::uint32_t i = 0; i < bytes; ++i) word |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  return word;
}
TUTTI_DEVICE void StoreWord(std::byte* to, std::uint64_t word, std::uint32_t bytes, bool aligned) {
  if (aligned && bytes == kPacketData) {
    *reinterpret_cast<std::uint64_t*>(to) = word;
    return;
  }
  TUTTI_ROLLED
  for (std::uint32_t i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(word >> (8 * i));
}

TUTTI_DEVICE void StoreEverywhere(const Move& move, std::uint32_t packet, std::uint64_t word, std::uint32_t bytes,
                                  bool aligned) {
  TUTTI_ROLLED
  for (std::uint32_t d = 0; d < move.destination_count; ++d) {
    std::byte* const to = move.destinations[d];
    if (move.destination_numbers[d] != 0) {
      StorePacket(to + packet * kPacketBytes, move.destination_numbers[d], word);
    } else {
      StoreWord(to + packet * kPacketData, word, bytes, aligned);
    }
  }
}

// Calls word(packet, bytes, aligned) -> result for every packet's worth; false if told to stop. word returns false
// then.
template <typename Word>
TUTTI_DEVICE bool ForEachPacket(const Move& move, Word&& word) {
  const bool aligned = Alignment(move).All(sizeof(std::uint64_t));
  const auto packets = static_cast<std::uint32_t>((move.bytes + kPacketData - 1) / kPacketData);
  TUTTI_ROLLED
  for (std::uint32_t p = ThreadIndex(); p < packets; p += ThreadCount()) {
    const std::uint64_t left = move.bytes - p * kPacketData;
    const auto bytes = static_cast<std::uint32_t>(left < kPacketData ? left : kPacketData);
    std::uint64_t result = 0;
    if (!word(p, bytes, aligned, &result)) return false;
    StoreEverywhere(move, p, result, bytes, aligned);
  }
  return true;
}

TUTTI_DEVICE bool LoadSource(const Move& move, std::uint32_t source, std::uint32_t packet, std::uint32_t bytes,
                             bool aligned, std::uint64_t* word) {
  if (move.source_numbers[source] != 0) return AwaitPacket(move, source, packet, word);
  *word = LoadWord(move.sources[source] + packet * kPacketData, bytes, aligned);
  return true;
}

}  // namespace tutti
