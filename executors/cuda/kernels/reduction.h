// Reductions: any number of sources, added in order, to any number of destinations.
//
// Thread-safety: called by all threads of a block, which share one Move.
#pragma once

#include "executors/cuda/kernels/element.h"
#include "executors/cuda/kernels/line128_batch.h"
#include "executors/cuda/kernels/operands.h"
#include "executors/cuda/kernels/units.h"

namespace tutti::cuda_kernels {

// Eight bytes, as packets carry them.
struct Word {
  std::uint32_t words[2];
};

// Accesses the k-th element of a unit: 32-bit words that hold several elements, or a single element. `k` is constant,
// so that all stays in registers.
template <typename T, typename Unit>
struct ElementsOf {
  static constexpr std::uint32_t kCount = sizeof(Unit) / sizeof(T);
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t,
                                                     std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;

  TUTTI_DEVICE static T Get(const Unit& unit, std::uint32_t k) {
    if constexpr (std::is_same_v<T, Unit>) {
      return unit;
    } else if constexpr (sizeof(T) == 8) {
      return std::bit_cast<T>(unit.words[2 * k] | std::uint64_t{unit.words[2 * k + 1]} << 32);
    } else {
      constexpr std::uint32_t kInWord = sizeof(std::uint32_t) / sizeof(T);
      return std::bit_cast<T>(static_cast<Bits>(unit.words[k / kInWord] >> (k % kInWord * 8 * sizeof(T))));
    }
  }
  // REQUIRES: elements are put in order, the first ones into a zeroed unit.
  TUTTI_DEVICE static void Put(Unit& unit, std::uint32_t k, T value) {
    if constexpr (std::is_same_v<T, Unit>) {
      unit = value;
    } else {
      const auto bits = std::bit_cast<Bits>(value);
      if constexpr (sizeof(T) == 8) {
        unit.words[2 * k] = static_cast<std::uint32_t>(bits);
        unit.words[2 * k + 1] = static_cast<std::uint32_t>(bits >> 32);
      } else {
        constexpr std::uint32_t kInWord = sizeof(std::uint32_t) / sizeof(T);
        unit.words[k / kInWord] |= std::uint32_t{bits} << (k % kInWord * 8 * sizeof(T));
      }
    }
  }
};

// kAdjusted: some source may be scaled (PreMulSum), or the result is an average. Only sums are, and few of those; the
// others omit this code, most of which is divisions. Operands are dense.
template <typename Codec, typename Op, bool kAdjusted = false>
class Reduction {
 public:
  // False if told to stop.
  TUTTI_DEVICE_CALL static bool Run(const Move& move) {
    if (move.packets) return Packets(move);
    const Alignment alignment = AlignmentOf<Dense>(move);
    const auto bytes = static_cast<std::uint32_t>(move.bytes);
    Units elements{static_cast<std::uint32_t>(bytes / sizeof(T))};
    const std::uint32_t head = alignment.ToNext(kVectorBytes);
    if (alignment.Alike(kVectorBytes) && head % sizeof(T) == 0 && bytes >= head + kVectorBytes) {
      const auto vectors = static_cast<std::uint32_t>((bytes - head) / kVectorBytes);
      InUnits<Vector, kVectorsAtOnce>(move, {vectors, head});
      elements.gap_at = head / sizeof(T);
      elements.gap = vectors * (kVectorBytes / sizeof(T));
      elements.count -= elements.gap;
    }
    InUnits<T, kElementsAtOnce>(move, elements);
    return true;
  }

  // The same for a step whose slots are lines. A function of its own, so that its registers are not those of Run's loops.
  TUTTI_DEVICE_CALL static bool RunLines(const Move& move) {
    const A scalar = Scalar(move);
    return ForEachLine128Batch<Dense, kLinesAtOnce>(move, [&](std::uint32_t taken, bool aligned) {
      Sums<Vector, kLinesAtOnce> sums;
      TUTTI_ROLLED
      for (std::uint32_t s = 0; s < move.source_count; s += 2) {
        const auto loaded = LoadTwoSources<kLinesAtOnce>(move, taken, aligned, s);
        if (!loaded.go_on) return false;
        TUTTI_ROLLED
        for (std::uint32_t i = 0; i < 2 && s + i < move.source_count; ++i) {
          Vector values[kLinesAtOnce];
          TUTTI_UNROLL
          for (std::uint32_t m = 0; m < kLinesAtOnce; ++m) values[m] = i == 0 ? loaded.one[m] : loaded.other[m];
          sums.Add(values, IsScaled(move, s + i), scalar);
        }
      }
      Line128Results<kLinesAtOnce> results;
      sums.Results(move, results.of);
      StoreResults(move, taken, aligned, results);
      return true;
    });
  }

 private:
  using T = typename Codec::Memory;
  using A = typename Codec::Accumulator;

  // Vectors that a thread loads at once from each of two sources. They and all accumulators, of at least 32 bits, must
  // fit in registers.
  static constexpr std::uint32_t kVectorsAtOnce = sizeof(T) == 1 ? 2 : 4;
  static constexpr std::uint32_t kElementsAtOnce = 4;
  static constexpr std::uint32_t kLinesAtOnce = kVectorsAtOnce / 2;  // and the places of their words

  template <typename Unit, std::uint32_t kMany>
  struct Sums {
    using Parts = ElementsOf<T, Unit>;
    A of[kMany][Parts::kCount];

    TUTTI_DEVICE Sums() {
      TUTTI_UNROLL
      for (std::uint32_t m = 0; m < kMany; ++m) {
        TUTTI_UNROLL
        for (std::uint32_t k = 0; k < Parts::kCount; ++k) of[m][k] = Op::template Neutral<A>();
      }
    }
    TUTTI_DEVICE void Add(const Unit (&units)[kMany], bool scaled, A scalar) {
      TUTTI_UNROLL
      for (std::uint32_t m = 0; m < kMany; ++m) {
        TUTTI_UNROLL
        for (std::uint32_t k = 0; k < Parts::kCount; ++k) {
          of[m][k] = Op::Combine(of[m][k], Contribution(Parts::Get(units[m], k), scaled, scalar));
        }
      }
    }
    TUTTI_DEVICE void Results(const Move& move, Unit (&results)[kMany]) const {
      TUTTI_UNROLL
      for (std::uint32_t m = 0; m < kMany; ++m) {
        results[m] = Unit{};
        TUTTI_UNROLL
        for (std::uint32_t k = 0; k < Parts::kCount; ++k) Parts::Put(results[m], k, Result(move, of[m][k]));
      }
    }
  };

  TUTTI_DEVICE static A Scalar(const Move& move) {
    const Word word{{static_cast<std::uint32_t>(move.scalar), static_cast<std::uint32_t>(move.scalar >> 32)}};
    return Codec::Decode(ElementsOf<T, Word>::Get(word, 0));
  }
  TUTTI_DEVICE static bool IsScaled(const Move& move, std::uint32_t source) {
    return kAdjusted && (move.scaled >> source & 1) != 0;
  }
  // A scaled contribution is rounded to the datatype: the same bits whether a rank scales it here or sends it scaled.
  TUTTI_DEVICE static A Contribution(T element, bool scaled, A scalar) {
    const A value = Codec::Decode(element);
    if constexpr (!kAdjusted) return value;
    return scaled ? Codec::Decode(Codec::Encode(Multiply::Combine(value, scalar))) : value;
  }
  TUTTI_DEVICE static T Result(const Move& move, A sum) {
    if constexpr (kAdjusted) {
      if (move.divisor > 1) sum = DividedBy(sum, move.divisor);
    }
    return Codec::Encode(sum);
  }

  template <typename Unit, std::uint32_t kMany>
  TUTTI_DEVICE static void InUnits(const Move& move, const Units& units) {
    const A scalar = Scalar(move);
    const std::uint32_t sources = move.source_count;
    ForEachBatch<Unit, kMany>(units, move.share, [&](const auto& batch) {
      Sums<Unit, kMany> sums;
      Unit one[kMany], other[kMany];
      // Loads two sources at a time, with no condition in between: the compiler would move loads past it.
      std::uint32_t s = sources % 2;
      if (s != 0) {
        batch.Load(Dense::Source(move, 0), one);
        sums.Add(one, IsScaled(move, 0), scalar);
      }
      TUTTI_ROLLED
      for (; s < sources; s += 2) {
        batch.Load(Dense::Source(move, s), one);
        batch.Load(Dense::Source(move, s + 1), other);
        sums.Add(one, IsScaled(move, s), scalar);
        sums.Add(other, IsScaled(move, s + 1), scalar);
      }
      Unit results[kMany];
      sums.Results(move, results);
      TUTTI_ROLLED
      for (std::uint32_t d = 0; d < move.destination_count; ++d) batch.Store(Dense::Destination(move, d), results);
    });
  }

  TUTTI_DEVICE static bool Packets(const Move& move) {
    const A scalar = Scalar(move);
    return ForEachPacket<Dense>(move, [&](std::uint32_t p, std::uint32_t bytes, bool aligned, std::uint64_t* word) {
      Sums<Word, 1> sums;
      TUTTI_ROLLED
      for (std::uint32_t s = 0; s < move.source_count; ++s) {
        std::uint64_t data = 0;
        if (!LoadSource<Dense>(move, s, p, bytes, aligned, &data)) return false;
        const Word words[1] = {{{static_cast<std::uint32_t>(data), static_cast<std::uint32_t>(data >> 32)}}};
        sums.Add(words, IsScaled(move, s), scalar);
      }
      Word results[1];
      sums.Results(move, results);
      *word = results[0].words[0] | std::uint64_t{results[0].words[1]} << 32;
      return true;
    });
  }
};

}  // namespace tutti::cuda_kernels
