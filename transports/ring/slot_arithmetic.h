// The pure arithmetic that every executor shares, on the host and on a GPU: which slot is next, what its flag says, how
// a block is cut into chunks. Constant expressions, so that one compiler's tests hold for the other's code.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::ring {

constexpr std::uint64_t SlotFlag(std::uint32_t number, std::uint32_t tag) { return std::uint64_t{tag} << 32 | number; }
constexpr std::uint32_t FlagNumber(std::uint64_t flag) { return static_cast<std::uint32_t>(flag); }

// How many slots the filler may still fill when it has filled `tail` and the slowest emptier has emptied `head`. 0 if
// no emptier can have reached `head`, which lies in memory that another process writes.
constexpr std::uint32_t FreeSlots(std::uint32_t tail, std::uint32_t head, std::uint32_t depth) {
  const std::uint32_t lag = tail - head;
  return lag < depth ? depth - lag : 0;
}

// A finaliser after MurmurHash3 (Appleby, public domain): every input bit reaches every output bit.
constexpr std::uint64_t Mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}
// The digest of a sequence of operations: that of the earlier ones, folded with the next one's signature. Mix is a
// bijection, so two sequences whose digests once differed have different digests for as long as the same operations
// follow. No operation yet: 0, as zeroed memory has it.
constexpr std::uint64_t NextDigest(std::uint64_t digest, std::uint64_t signature) { return Mix(digest ^ signature); }
// The flag's upper half, from the digest up to the slot's operation: which operation it is, and which came before it.
constexpr std::uint32_t OperationTag(std::uint64_t digest) { return static_cast<std::uint32_t>(digest >> 32); }

// Slot number c lies at index c modulo depth, a power of two, so that the numbers' wrap at 2^32 is seamless.
constexpr std::uint32_t SlotIndex(std::uint32_t number, std::uint32_t depth) { return number & (depth - 1); }

// Chunks of a block of `bytes`: how often its steps run.
constexpr std::uint32_t ChunkCount(std::size_t bytes, std::size_t chunk_bytes) {
  return static_cast<std::uint32_t>((bytes + chunk_bytes - 1) / chunk_bytes);
}
// Bytes of the block before chunk `chunk`.
constexpr std::size_t ChunkBegin(std::uint32_t chunk, std::size_t chunk_bytes) { return chunk * chunk_bytes; }
// Bytes of chunk `chunk` of a block of `bytes`. An empty block that runs nevertheless has one empty chunk.
constexpr std::size_t ChunkLength(std::size_t bytes, std::uint32_t chunk, std::size_t chunk_bytes) {
  const std::size_t left = bytes - ChunkBegin(chunk, chunk_bytes);
  return left < chunk_bytes ? left : chunk_bytes;
}

}  // namespace tutti::ring
