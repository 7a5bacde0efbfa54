// The line protocol on a GPU. A slot consists of 16-byte packets, each with 8 bytes of data between two copies of the
// slot's number, so that data and flag arrive together in one trip (as in NCCL's LL protocol). Packet 0 holds the tag
// of the slot's operation and its length.
//
//   | data 0..3 | number | data 4..7 | number |
//
// A packet is stored and loaded as one vector of two 8-byte words. A GPU never tears a word but may show the two at
// different times, so each has its own number.
//
// A packet that a shorter message left untouched holds an older number. Numbers are odd, so none is 0, as memory is that
// was never written; they repeat after 2^31 slots. Before that, the filler renews a slot: it writes all of its packets,
// those behind the data too. Each slot of a ring is renewed once in 2^30 slots, so no packet holds a number that is 2^31
// slots old and could pass for a new one. (A block's barriers order the stores to one packet, whichever thread they
// come from; and a reader that still looks at a slot keeps the filler away from it.)
//
// Thread-safety: called by device threads; a packet has one writer and one reader.
#pragma once

#include "executors/cuda/kernels/device.h"

namespace tutti::cuda_kernels {

inline constexpr std::size_t kPacketBytes = 16;
inline constexpr std::size_t kPacketData = 8;

// The number that the packets of a ring's `count`-th slot hold, counted from 1.
constexpr std::uint32_t PacketNumber(std::uint64_t count) { return 2 * static_cast<std::uint32_t>(count) + 1; }

// Whether the filler renews the slot whose packets hold `number`: the first ones, up to the deepest ring, of every 2^30.
// Not those at the very beginning, where nothing is old.
inline constexpr std::uint32_t kRenewalPeriod = std::uint32_t{1} << 30;
inline constexpr std::uint32_t kMostPacketSlots = 64;  // of a ring
constexpr bool RenewsSlot(std::uint32_t number, std::uint32_t period = kRenewalPeriod) {
  return (number / 2 - period / 2) % period < kMostPacketSlots;
}

// Bytes of a slot that carries `bytes`.
constexpr std::size_t PacketSlotBytes(std::size_t bytes) {
  return (1 + (bytes + kPacketData - 1) / kPacketData) * kPacketBytes;
}

TUTTI_DEVICE void StorePacket(std::byte* packet, std::uint32_t number, std::uint64_t data) {
  const std::uint64_t flag = std::uint64_t{number} << 32;
  StorePairRelaxed(packet, {flag | (data & 0xffff'ffff), flag | data >> 32});
}

// Returns whether the packet has arrived; if so, sets *data.
TUTTI_DEVICE bool LoadPacket(const std::byte* packet, std::uint32_t number, std::uint64_t* data) {
  const WordPair halves = LoadPairRelaxed(packet);
  if (halves.low >> 32 != number || halves.high >> 32 != number) return false;
  *data = (halves.low & 0xffff'ffff) | halves.high << 32;
  return true;
}

// Renews the `slot_packets` packets of a slot, from `packets` on, that its data, of `bytes`, leaves untouched.
TUTTI_DEVICE void RenewPackets(std::byte* packets, std::uint32_t number, std::uint64_t bytes,
                               std::uint32_t slot_packets) {
  TUTTI_ROLLED
  for (std::size_t p = (bytes + kPacketData - 1) / kPacketData; p < slot_packets; ++p) {
    StorePacket(packets + p * kPacketBytes, number, 0);
  }
}

}  // namespace tutti::cuda_kernels
