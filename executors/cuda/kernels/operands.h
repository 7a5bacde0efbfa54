// One step's data: where it lies, and how a block waits for its packets.
//
// Thread-safety: called by all threads of a block, which share one Move.
#pragma once

#include "executors/cuda/kernels/device_plan.h"
#include "executors/cuda/kernels/packet.h"
#include "executors/cuda/kernels/places.h"
#include "executors/cuda/kernels/units.h"

namespace tutti::cuda_kernels {

struct Move {
  const std::byte* sources[kMoveSources];
  std::byte* destinations[kMoveDestinations];
  // The numbers of the slots that these packets or lines belong to, counted from 1; 0: the operand is memory.
  std::uint64_t source_numbers[kMoveSources];
  std::uint64_t destination_numbers[kMoveDestinations];
  std::byte* staging;               // for the strided operands of a reduction, kStagedBytes each
  Walk source_walks[kMoveSources];  // of memory operands, in steps with strided ones only
  Walk destination_walks[kMoveDestinations];
  std::uint64_t scaled;  // bit s: source s is multiplied by `scalar` first
  std::uint64_t scalar;
  std::uint64_t bytes;
  const std::uint32_t* stop;   // checked while waiting for packets or lines
  const std::uint32_t* abort;  // pinned: checked rarely
  Share share;                 // one block alone, but for peer memory; never with packets, lines or strided operands
  std::uint32_t source_count, destination_count;
  std::int32_t divisor;  // above 1: the result is divided by it
  std::uint32_t reducer;
  bool arithmetic;  // otherwise the one source is copied
  bool packets;     // some source or destination is packets
  bool lines;       // some source or destination is lines of 128 bytes
  // The rest is for steps that use a switch (in_switch.h) only.
  std::uint32_t summed;    // so many sources, the first ones and all one address, are a sum; 0: none is
  std::int32_t multicast;  // this destination is one; -1: none is
};

// Reading host memory takes a trip over PCIe, so only one in this many polls, of a few hundred ns each, does it.
inline constexpr std::uint32_t kPollsPerLook = 1024;

// True if waiting is over: the rank has stopped or the host aborts.
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
  const std::uint32_t number = PacketNumber(move.source_numbers[source]);
  return AwaitUntil(move.stop, move.abort, [&] { return LoadPacket(packet, number, data); });
}

// How the loops of a step find its operands.
struct Dense {
  TUTTI_DEVICE static DensePlaces<const std::byte> Source(const Move& move, std::uint32_t s) {
    return {move.sources[s]};
  }
  TUTTI_DEVICE static DensePlaces<std::byte> Destination(const Move& move, std::uint32_t d) {
    return {move.destinations[d]};
  }
  TUTTI_DEVICE static void See(Alignment& alignment, const std::byte* pointer, const Walk&) { alignment.See(pointer); }
};
// Some operand is strided.
struct Walked {
  TUTTI_DEVICE static WalkedPlaces<const std::byte> Source(const Move& move, std::uint32_t s) {
    return {move.sources[s], move.source_walks[s]};
  }
  TUTTI_DEVICE static WalkedPlaces<std::byte> Destination(const Move& move, std::uint32_t d) {
    return {move.destinations[d], move.destination_walks[d]};
  }
  TUTTI_DEVICE static void See(Alignment& alignment, const std::byte* base, const Walk& walk) {
    alignment.See(base, walk);
  }
};

// The alignment of all operands in memory. (Packets and lines always lie at multiples of their size.)
template <typename Layout>
TUTTI_DEVICE Alignment AlignmentOf(const Move& move) {
  Alignment alignment;
  TUTTI_ROLLED
  for (std::uint32_t s = 0; s < move.source_count; ++s) {
    if (move.source_numbers[s] == 0) Layout::See(alignment, move.sources[s], move.source_walks[s]);
  }
  TUTTI_ROLLED
  for (std::uint32_t d = 0; d < move.destination_count; ++d) {
    if (move.destination_numbers[d] == 0) Layout::See(alignment, move.destinations[d], move.destination_walks[d]);
  }
  return alignment;
}

// ---------------------------------------------------------------------------------------------------- packets --

// Up to 8 bytes from `byte` on, as a word.
template <typename Places>
TUTTI_DEVICE std::uint64_t LoadWord(const Places& from, std::uint32_t byte, std::uint32_t bytes, bool aligned) {
  if (aligned && bytes == kPacketData) return *reinterpret_cast<const std::uint64_t*>(from(byte));
  std::uint64_t word = 0;
  TUTTI_ROLLED
  for (std::uint32_t i = 0; i < bytes; ++i) word |= static_cast<std::uint64_t>(*from(byte + i)) << (8 * i);
  return word;
}
template <typename Places>
TUTTI_DEVICE void StoreWord(const Places& to, std::uint32_t byte, std::uint64_t word, std::uint32_t bytes,
                            bool aligned) {
  if (aligned && bytes == kPacketData) {
    *reinterpret_cast<std::uint64_t*>(to(byte)) = word;
    return;
  }
  TUTTI_ROLLED
  for (std::uint32_t i = 0; i < bytes; ++i) *to(byte + i) = static_cast<std::byte>(word >> (8 * i));
}

template <typename Layout>
TUTTI_DEVICE void StoreEverywhere(const Move& move, std::uint32_t packet, std::uint64_t word, std::uint32_t bytes,
                                  bool aligned) {
  TUTTI_ROLLED
  for (std::uint32_t d = 0; d < move.destination_count; ++d) {
    if (move.destination_numbers[d] != 0) {
      StorePacket(move.destinations[d] + packet * kPacketBytes, PacketNumber(move.destination_numbers[d]), word);
    } else {
      StoreWord(Layout::Destination(move, d), packet * kPacketData, word, bytes, aligned);
    }
  }
}

// Calls word(packet, bytes, aligned, &result) for every packet's worth of data. Returns false, as `word` does, if told
// to stop.
template <typename Layout, typename Word>
TUTTI_DEVICE bool ForEachPacket(const Move& move, Word&& word) {
  const bool aligned = AlignmentOf<Layout>(move).All(sizeof(std::uint64_t));
  const auto packets = static_cast<std::uint32_t>((move.bytes + kPacketData - 1) / kPacketData);
  TUTTI_ROLLED
  for (std::uint32_t p = ThreadIndex(); p < packets; p += ThreadCount()) {
    const std::uint64_t left = move.bytes - p * kPacketData;
    const auto bytes = static_cast<std::uint32_t>(left < kPacketData ? left : kPacketData);
    std::uint64_t result = 0;
    if (!word(p, bytes, aligned, &result)) return false;
    StoreEverywhere<Layout>(move, p, result, bytes, aligned);
  }
  return true;
}

template <typename Layout>
TUTTI_DEVICE bool LoadSource(const Move& move, std::uint32_t source, std::uint32_t packet, std::uint32_t bytes,
                             bool aligned, std::uint64_t* word) {
  if (move.source_numbers[source] != 0) return AwaitPacket(move, source, packet, word);
  *word = LoadWord(Layout::Source(move, source), packet * kPacketData, bytes, aligned);
  return true;
}

}  // namespace tutti::cuda_kernels
