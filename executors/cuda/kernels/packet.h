// The line protocol on a GPU. A slot consists of 16-byte packets, each with 8 bytes of data between two copies of the
// slot's number, so that data and flag arrive together in one trip (as in NCCL's LL protocol). Packet 0 holds the tag
// of the slot's operation and its length.
//
//   | data 0..3 | number | data 4..7 | number |
//
// A packet is stored and loaded as one vector of two 8-byte words. A GPU never tears a word but may show the two at
// different times, so each has its own number. A number is 0 only in memory that was never written: slot c carries
// number c + 1. A packet that a shorter message left untouched holds an older number; it could pass for a new one only
// exactly 2^32 slots later.
//
// Thread-safety: called by device threads; a packet has one writer and one reader.
#pragma once

#include "executors/cuda/kernels/device.h"

namespace tutti::cuda_kernels {

inline constexpr std::size_t kPacketBytes = 16;
inline constexpr std::size_t kPacketData = 8;

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

}  // namespace tutti::cuda_kernels
