// How the threads of a block share the lines of a step whose slots are lines of 128 bytes (line128.h). Eight threads of a
// warp move one line at a time, of each operand a pair: sixteen bytes, or eight beside the flag. Operands in memory are
// only as aligned as their elements, and a line's data is no multiple of a vector, so they are accessed by words.
//
// Thread-safety: called by all threads of a block, which share one Move.
#pragma once

#include "executors/cuda/kernels/line128.h"
#include "executors/cuda/kernels/operands.h"

namespace tutti::cuda_kernels {

// The kMany pairs that one thread takes at a time, of different lines. Threads without a line left load the last one
// again and do not store it, because the threads of a warp wait for lines together.
template <typename Layout, std::uint32_t kMany>
class Line128Batch {
 public:
  // `taken`: pairs that the thread has taken before. `aligned`: all operands in memory begin at multiples of a word.
  TUTTI_DEVICE Line128Batch(const Move& move, std::uint32_t taken, bool aligned) : move_(move) {
    const std::uint32_t last = Line128Count(move.bytes) - 1;
    by_words_ = aligned;
    TUTTI_UNROLL
    for (std::uint32_t m = 0; m < kMany; ++m) {
      const std::uint32_t line = LineOf(taken + m);
      stored_[m] = line <= last;
      line_[m] = stored_[m] ? line : last;
      pair_[m] = PairOf(taken + m);
      by_words_ = by_words_ && AtByte(m) + Line128PairData(pair_[m]) <= move.bytes;
    }
  }

  // The line of the `taken`-th pair that this thread takes.
  TUTTI_DEVICE static std::uint32_t LineOf(std::uint32_t taken) {
    return taken / kPairsOfThread * (ThreadCount() / kLine128Threads) + ThreadIndex() / kLine128Threads;
  }

  // Loads this thread's part of a source. False, in all threads of a warp, if told to stop.
  TUTTI_DEVICE bool Load(std::uint32_t source, Vector (&to)[kMany]) const {
    if (move_.source_numbers[source] != 0) return AwaitLines(source, to);
    LoadMemory(source, to);
    return true;
  }

  // REQUIRES: the source is memory.
  TUTTI_DEVICE void LoadMemory(std::uint32_t source, Vector (&to)[kMany]) const {
    const auto from = Layout::Source(move_, source);
    if (!by_words_) {
      TUTTI_UNROLL
      for (std::uint32_t m = 0; m < kMany; ++m) {
        std::uint64_t words[2];
        TUTTI_UNROLL
        for (std::uint32_t w = 0; w < 2; ++w) {
          words[w] = LoadWord(from, AtByte(m) + w * kWordBytes, WordData(m, w), false);
        }
        to[m] = VectorOf(words[0], words[1]);
      }
      return;
    }
    // No condition in between, which would make a load wait for the one before it: beside a flag, the first word twice.
    const std::byte* places[kMany][2];
    std::uint64_t words[kMany][2];
    TUTTI_UNROLL
    for (std::uint32_t m = 0; m < kMany; ++m) {
      places[m][0] = from(AtByte(m));
      places[m][1] = from(AtByte(m) + Line128PairData(pair_[m]) - kWordBytes);
    }
    TUTTI_UNROLL
    for (std::uint32_t m = 0; m < kMany; ++m) {
      TUTTI_UNROLL
      for (std::uint32_t w = 0; w < 2; ++w) words[m][w] = LoadGlobal<std::uint64_t>(places[m][w]);
    }
    TUTTI_UNROLL
    for (std::uint32_t m = 0; m < kMany; ++m) to[m] = VectorOf(words[m][0], words[m][1]);
  }

  // Waits for a source's lines; all threads of a warp wait for all of theirs. REQUIRES: the source is lines. False, in all
  // threads of a warp, if told to stop.
  TUTTI_DEVICE bool AwaitLines(std::uint32_t source, Vector (&to)[kMany]) const {
    const std::uint64_t number = move_.source_numbers[source];
    TUTTI_ROLLED
    for (std::uint32_t polls = 1;; ++polls) {
      SyncWarp();  // so that the threads of a line load it with one instruction
      bool come = true;
      TUTTI_UNROLL
      for (std::uint32_t m = 0; m < kMany; ++m) {
        come = LoadLine128(Line(move_.sources[source], m), pair_[m], number, &to[m]) && come;
      }
      if (AllOfWarp(come)) return true;
      if (polls % kPollsPerLook == 0 && !AllOfWarp(!Stopped(move_.stop, move_.abort))) return false;
      Pause();
    }
  }

  TUTTI_DEVICE void StoreEverywhere(const Vector (&from)[kMany]) const {
    TUTTI_ROLLED
    for (std::uint32_t d = 0; d < move_.destination_count; ++d) {
      if (const std::uint64_t number = move_.destination_numbers[d]; number != 0) {
        SyncWarp();  // so that the threads of a line store it with one instruction
        TUTTI_UNROLL
        for (std::uint32_t m = 0; m < kMany; ++m) {
          if (stored_[m]) StoreLine128(Line(move_.destinations[d], m), pair_[m], number, from[m]);
        }
        continue;
      }
      const auto to = Layout::Destination(move_, d);
      TUTTI_UNROLL
      for (std::uint32_t m = 0; m < kMany; ++m) {
        if (!stored_[m]) continue;
        TUTTI_UNROLL
        for (std::uint32_t w = 0; w < 2; ++w) {
          const std::uint64_t word = from[m].words[2 * w] | std::uint64_t{from[m].words[2 * w + 1]} << 32;
          StoreWord(to, AtByte(m) + w * kWordBytes, word, WordData(m, w), by_words_);
        }
      }
    }
  }

 private:
  static constexpr auto kWordBytes = static_cast<std::uint32_t>(sizeof(std::uint64_t));
  static_assert(kWordBytes == kPacketData && (kPairsOfThread == 1 || kPairsOfThread % kMany == 0));

  TUTTI_DEVICE static std::uint32_t PairOf(std::uint32_t taken) {
    return ThreadIndex() % kLine128Threads * kPairsOfThread + taken % kPairsOfThread;
  }
  TUTTI_DEVICE static Vector VectorOf(std::uint64_t low, std::uint64_t high) {
    return {{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32), static_cast<std::uint32_t>(high),
             static_cast<std::uint32_t>(high >> 32)}};
  }

  TUTTI_DEVICE std::uint32_t AtByte(std::uint32_t m) const {
    return line_[m] * kLine128Data + pair_[m] * static_cast<std::uint32_t>(kVectorBytes);
  }
  template <typename Byte>
  TUTTI_DEVICE Byte* Line(Byte* first, std::uint32_t m) const {
    return first + std::size_t{line_[m]} * kLine128Bytes;
  }
  // Bytes of the step that a word of a pair holds; 0 if another thread stores them.
  TUTTI_DEVICE std::uint32_t WordData(std::uint32_t m, std::uint32_t word) const {
    if (!stored_[m] || (word + 1) * kWordBytes > Line128PairData(pair_[m])) return 0;
    const std::uint32_t at = AtByte(m) + word * kWordBytes;
    const auto bytes = static_cast<std::uint32_t>(move_.bytes);
    const std::uint32_t left = at < bytes ? bytes - at : 0;
    return left < kWordBytes ? left : kWordBytes;
  }

  const Move& move_;
  std::uint32_t line_[kMany], pair_[kMany];
  bool stored_[kMany];
  bool by_words_;  // whole words, of aligned operands
};

// Whether all operands in memory begin at multiples of a word. Not inlined, because the loops that ask are compiled for
// every type and operator.
template <typename Layout>
TUTTI_DEVICE_CALL bool BeginAtWords(const Move& move) {
  return AlignmentOf<Layout>(move).All(sizeof(std::uint64_t));
}

// Calls body(taken, aligned) for all of a thread's batches. Returns false, as `body` does, if told to stop.
template <typename Layout, std::uint32_t kMany, typename Body>
TUTTI_DEVICE bool ForEachLine128Batch(const Move& move, Body&& body) {
  const bool aligned = BeginAtWords<Layout>(move);
  const std::uint32_t lines = Line128Count(move.bytes);
  // How far this thread's line lies behind the first of its warp, whose threads go on while one of them has a line.
  const std::uint32_t before = ThreadIndex() % kWarpThreads / kLine128Threads;
  TUTTI_ROLLED
  for (std::uint32_t taken = 0; Line128Batch<Layout, kMany>::LineOf(taken) - before < lines; taken += kMany) {
    if (!body(taken, aligned)) return false;
  }
  return true;
}

// The two functions below move batches of all reductions, which are compiled for many types and operators.

// A batch of two sources, and whether the thread was not told to stop.
template <std::uint32_t kMany>
struct Line128Sources {
  Vector one[kMany], other[kMany];
  bool go_on;
};

// Loads from a source and the one behind it, if there is one; both loads are in flight together.
template <std::uint32_t kMany>
TUTTI_DEVICE_CALL Line128Sources<kMany> LoadTwoSources(const Move& move, std::uint32_t taken, bool aligned,
                                                       std::uint32_t source) {
  const Line128Batch<Dense, kMany> batch(move, taken, aligned);
  Line128Sources<kMany> loaded{};
  const bool two = source + 1 < move.source_count;
  const bool one_waits = move.source_numbers[source] != 0;
  const bool other_waits = two && move.source_numbers[source + 1] != 0;
  if (!one_waits) batch.LoadMemory(source, loaded.one);
  if (two && !other_waits) batch.LoadMemory(source + 1, loaded.other);
  loaded.go_on = (!one_waits || batch.AwaitLines(source, loaded.one)) &&
                 (!other_waits || batch.AwaitLines(source + 1, loaded.other));
  return loaded;
}

template <std::uint32_t kMany>
struct Line128Results {
  Vector of[kMany];
};
template <std::uint32_t kMany>
TUTTI_DEVICE_CALL void StoreResults(const Move& move, std::uint32_t taken, bool aligned,
                                    Line128Results<kMany> results) {
  Line128Batch<Dense, kMany>(move, taken, aligned).StoreEverywhere(results.of);
}

}  // namespace tutti::cuda_kernels
