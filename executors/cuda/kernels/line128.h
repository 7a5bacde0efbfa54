// The inline protocol on a GPU: lines of 128 bytes, each with 120 bytes of data and a flag, so that data and flag arrive
// together in one trip (as in NCCL's LL128 protocol) and a sixteenth of the link carries flags, not half of it as with
// packets (packet.h). A line consists of eight pairs of words:
//
//   | data 0..15 | data 16..31 | ... | data 112..119, flag |
//
// Eight neighbouring threads of a warp store a line, one pair each, with one instruction; eight load it, and vote
// whether the flag has come.
//
// Why no line is torn: PTX promises that neither word of a pair is, but nothing about several threads' pairs. The
// hardware does more: it handles the accesses of one instruction of a warp to one aligned 128-byte line as one request.
// So the line's data and flag enter the second-level cache together, and a load finds them together. NVLink keeps such
// a request whole. PCIe may split it, and so may the way to the host's memory. NCCL relies on the same from compute
// capability 7.0 on, on GPUs that NVLink joins. Where Tutti relies on it is decided in
// transports/cuda/line128_support.h; tests/gpu/litmus.h tests it.
//
// A line that a shorter message left untouched holds an older flag. A flag is the number of its slot in the ring,
// counted from 1 in 64 bits. It never repeats (a billion slots a second take 584 years) and is never 0, as memory is that
// was never written. So no slot needs to be renewed.
//
// A slot begins with a line whose last sixteen bytes are a packet that describes it, as with packets. Every message
// writes that packet, so the one before it is as old as the ring is deep, and a number of 32 bits suffices.
//
// In a host kernel one thread stores all pairs of a line in order, and the flag with a release; loads acquire the flag.
//
// Thread-safety: called by device threads, all of a warp together; a line has eight writers and eight readers of one
// warp each.
#pragma once

#include "executors/cuda/kernels/device.h"
#include "executors/cuda/kernels/packet.h"

namespace tutti::cuda_kernels {

inline constexpr std::uint32_t kLine128Bytes = 128;
inline constexpr std::uint32_t kLine128Data = 120;
inline constexpr std::uint32_t kLine128Pairs = kLine128Bytes / kVectorBytes;
inline constexpr std::uint32_t kLine128LastPair = kLine128Pairs - 1;  // half of it is the flag
// How many pairs of a line one thread moves.
inline constexpr std::uint32_t kPairsOfThread = kLine128Pairs / kLine128Threads;
// False in a host kernel.
inline constexpr bool kLineIsOneStore = kPairsOfThread == 1;
static_assert(kWarpThreads % kLine128Threads == 0 && kLine128Pairs % kLine128Threads == 0);

// Lines that hold `bytes`.
constexpr std::uint32_t Line128Count(std::uint64_t bytes) {
  return static_cast<std::uint32_t>((bytes + kLine128Data - 1) / kLine128Data);
}
// Bytes of a slot that carries `bytes`.
constexpr std::size_t Line128SlotBytes(std::size_t bytes) {
  return (1 + std::size_t{Line128Count(bytes)}) * kLine128Bytes;
}

// Data bytes of a pair.
constexpr std::uint32_t Line128PairData(std::uint32_t pair) {
  return pair == kLine128LastPair ? kVectorBytes - sizeof(std::uint64_t) : kVectorBytes;
}

// Stores this thread's pair of a line; of the last one, the first word. The threads of a line store together.
TUTTI_DEVICE void StoreLine128(std::byte* line, std::uint32_t pair, std::uint64_t flag, const Vector& data) {
  WordPair words{data.words[0] | std::uint64_t{data.words[1]} << 32,
                 data.words[2] | std::uint64_t{data.words[3]} << 32};
  std::byte* const at = line + pair * kVectorBytes;
  if constexpr (kLineIsOneStore) {
    if (pair == kLine128LastPair) words.high = flag;
    StorePairRelaxed(at, words);
  } else if (pair != kLine128LastPair) {
    StorePairRelaxed(at, words);
  } else {
    auto* const last = reinterpret_cast<std::uint64_t*>(at);
    StoreRelaxed(last, words.low);
    StoreRelease(last + 1, flag, true);
  }
}

// Loads this thread's pair. The line has come if this returns true in all of its threads; the one that loads the flag
// returns false before that.
TUTTI_DEVICE bool LoadLine128(const std::byte* line, std::uint32_t pair, std::uint64_t flag, Vector* data) {
  if constexpr (!kLineIsOneStore) {
    const auto* const last = reinterpret_cast<const std::uint64_t*>(line + kLine128LastPair * kVectorBytes);
    if (LoadAcquire(last + 1, true) != flag) return false;
  }
  const WordPair words = LoadPairRelaxed(line + pair * kVectorBytes);
  *data = {{static_cast<std::uint32_t>(words.low), static_cast<std::uint32_t>(words.low >> 32),
            static_cast<std::uint32_t>(words.high), static_cast<std::uint32_t>(words.high >> 32)}};
  return pair != kLine128LastPair || words.high == flag;
}

}  // namespace tutti::cuda_kernels
