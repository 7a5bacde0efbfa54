// One step's data, moved by a block: any number of sources, reduced if there are several, into any number of
// destinations, in one pass. Sources and destinations are memory or packets (packet.h).
//
// Vectors of 16 bytes, several in flight a thread, where all pointers allow it; elements where they do not.
//
// Thread-safety: called by all threads of a block, which share one Move.
#pragma once

#include "executors/cuda/element.h"
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

template <typename T>
TUTTI_DEVICE bool IsAligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % sizeof(T) == 0;
}

// All that is memory is aligned to T. (Packets always are.)
template <typename T>
TUTTI_DEVICE bool AllAligned(const Move& move) {
  bool aligned = true;
  TUTTI_ROLLED
  for (std::uint32_t s = 0; s < move.source_count; ++s) {
    aligned = aligned && (move.source_numbers[s] != 0 || IsAligned<T>(move.sources[s]));
  }
  TUTTI_ROLLED
  for (std::uint32_t d = 0; d < move.destination_count; ++d) {
    aligned = aligned && (move.destination_numbers[d] != 0 || IsAligned<T>(move.destinations[d]));
  }
  return aligned;
}

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
  const bool aligned = AllAligned<std::uint64_t>(move);
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

// ----------------------------------------------------------------------------------------------------- copies --

template <typename T>
TUTTI_DEVICE void CopyElements(const Move& move, std::uint64_t from_byte) {
  const auto* const from = reinterpret_cast<const T*>(move.sources[0]);
  const std::uint64_t count = move.bytes / sizeof(T);
  TUTTI_ROLLED
  for (std::uint64_t i = from_byte / sizeof(T) + ThreadIndex(); i < count; i += ThreadCount()) {
    const T value = from[i];
    TUTTI_ROLLED
    for (std::uint32_t d = 0; d < move.destination_count; ++d) reinterpret_cast<T*>(move.destinations[d])[i] = value;
  }
}

TUTTI_DEVICE void CopyVectors(const Move& move) {
  constexpr std::uint32_t kInFlight = 8;
  const std::byte* const from = move.sources[0];
  const std::uint64_t vectors = move.bytes / kVectorBytes;
  const std::uint32_t threads = ThreadCount();
  std::uint64_t i = ThreadIndex();
  TUTTI_ROLLED
  for (; i + (kInFlight - 1) * threads < vectors; i += kInFlight * threads) {
    Vector values[kInFlight];
    TUTTI_UNROLL
    for (std::uint32_t k = 0; k < kInFlight; ++k) values[k] = LoadVector(from, i + k * threads);
    TUTTI_ROLLED
    for (std::uint32_t d = 0; d < move.destination_count; ++d) {
      TUTTI_UNROLL
      for (std::uint32_t k = 0; k < kInFlight; ++k) StoreVector(move.destinations[d], i + k * threads, values[k]);
    }
  }
  TUTTI_ROLLED
  for (; i < vectors; i += threads) {
    const Vector value = LoadVector(from, i);
    TUTTI_ROLLED
    for (std::uint32_t d = 0; d < move.destination_count; ++d) StoreVector(move.destinations[d], i, value);
  }
  CopyElements<std::uint8_t>(move, vectors * kVectorBytes);
}

// False if told to stop.
TUTTI_DEVICE_CALL bool Copy(const Move& move) {
  if (move.packets) {
    return ForEachPacket(move, [&](std::uint32_t p, std::uint32_t bytes, bool aligned, std::uint64_t* word) {
      return LoadSource(move, 0, p, bytes, aligned, word);
    });
  }
  if (AllAligned<Vector>(move)) {
    CopyVectors(move);
  } else if (AllAligned<std::uint32_t>(move) && move.bytes % sizeof(std::uint32_t) == 0) {
    CopyElements<std::uint32_t>(move, 0);
  } else {
    CopyElements<std::uint8_t>(move, 0);
  }
  return true;
}

// ------------------------------------------------------------------------------------------------- reductions --

// The k-th element of a group of words, and a group made of elements; constant k, so that all stays in registers.
template <typename T, std::uint32_t kWords>
struct Group {
  static constexpr std::uint32_t kElements = kWords * sizeof(std::uint32_t) / sizeof(T);
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t,
                                                     std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;
  std::uint32_t words[kWords];

  TUTTI_DEVICE T Get(std::uint32_t k) const {
    if constexpr (sizeof(T) == 8) {
      return std::bit_cast<T>(words[2 * k] | std::uint64_t{words[2 * k + 1]} << 32);
    } else {
      constexpr std::uint32_t kInWord = sizeof(std::uint32_t) / sizeof(T);
      return std::bit_cast<T>(static_cast<Bits>(words[k / kInWord] >> (k % kInWord * 8 * sizeof(T))));
    }
  }
  // REQUIRES: elements are put in order, the first ones into zeroed words.
  TUTTI_DEVICE void Put(std::uint32_t k, T value) {
    const auto bits = std::bit_cast<Bits>(value);
    if constexpr (sizeof(T) == 8) {
      words[2 * k] = static_cast<std::uint32_t>(bits);
      words[2 * k + 1] = static_cast<std::uint32_t>(bits >> 32);
    } else {
      constexpr std::uint32_t kInWord = sizeof(std::uint32_t) / sizeof(T);
      words[k / kInWord] |= std::uint32_t{bits} << (k % kInWord * 8 * sizeof(T));
    }
  }
};

// kMayScale: some source may be a PreMulSum's. Only sums are, and few of those: the others need not carry the code.
template <typename Codec, typename Op, bool kMayScale = false>
struct Reduction {
  using T = typename Codec::Memory;
  using A = typename Codec::Accumulator;

  TUTTI_DEVICE static A Scalar(const Move& move) {
    Group<T, 2> group{{static_cast<std::uint32_t>(move.scalar), static_cast<std::uint32_t>(move.scalar >> 32)}};
    return Codec::Decode(group.Get(0));
  }
  // A contribution that is scaled is rounded to the datatype: the same bits whether a rank scales here or sends it
  // scaled.
  TUTTI_DEVICE static A Contribution(T element, bool scaled, A scalar) {
    const A value = Codec::Decode(element);
    if constexpr (!kMayScale) return value;
    return scaled ? Codec::Decode(Codec::Encode(Multiply::Combine(value, scalar))) : value;
  }
  TUTTI_DEVICE static T Result(const Move& move, A sum) {
    if constexpr (std::is_same_v<Op, Add>) {  // average is nothing else
      if (move.divisor > 1) sum = DividedBy(sum, move.divisor);
    }
    return Codec::Encode(sum);
  }

  template <std::uint32_t kWords, std::uint32_t kMany>
  struct Sums {
    A of[kMany][Group<T, kWords>::kElements];
  };

  // Adds source s, or begins with it, when kFirst. False if told to stop.
  template <bool kFirst, std::uint32_t kWords, std::uint32_t kMany, typename Load>
  TUTTI_DEVICE static bool Take(const Move& move, std::uint32_t s, A scalar, Sums<kWords, kMany>& sums, Load&& load) {
    Group<T, kWords> groups[kMany];
    TUTTI_UNROLL
    for (std::uint32_t m = 0; m < kMany; ++m) {
      if (!load(s, m, &groups[m])) return false;
    }
    const bool scaled = kMayScale && (move.scaled >> s & 1) != 0;
    TUTTI_UNROLL
    for (std::uint32_t m = 0; m < kMany; ++m) {
      TUTTI_UNROLL
      for (std::uint32_t k = 0; k < Group<T, kWords>::kElements; ++k) {
        const A x = Contribution(groups[m].Get(k), scaled, scalar);
        sums.of[m][k] = kFirst ? x : Op::Combine(sums.of[m][k], x);
      }
    }
    return true;
  }

  // kMany groups of kWords words a thread, so that as many loads of each source are in flight.
  template <std::uint32_t kWords, std::uint32_t kMany, typename Load, typename Store>
  TUTTI_DEVICE static bool Groups(const Move& move, Load&& load, Store&& store) {
    const A scalar = Scalar(move);
    Sums<kWords, kMany> sums;
    if (!Take<true>(move, 0, scalar, sums, load)) return false;
    TUTTI_ROLLED
    for (std::uint32_t s = 1; s < move.source_count; ++s) {
      if (!Take<false>(move, s, scalar, sums, load)) return false;
    }
    TUTTI_UNROLL
    for (std::uint32_t m = 0; m < kMany; ++m) {
      Group<T, kWords> result{};
      TUTTI_UNROLL
      for (std::uint32_t k = 0; k < Group<T, kWords>::kElements; ++k) result.Put(k, Result(move, sums.of[m][k]));
      store(m, result);
    }
    return true;
  }

  static constexpr std::uint32_t kVectorWords = kVectorBytes / sizeof(std::uint32_t);

  // Vectors in flight a thread: their accumulators must fit the registers, 32 of 32 bits.
  static constexpr std::uint32_t kInFlight = kMayScale || sizeof(T) == 1 ? 2 : sizeof(T) == 2 ? 3 : 4;

  // A thread's vectors `first`, first + stride, ... that there are.
  TUTTI_DEVICE static void Vectors(const Move& move, std::uint64_t first, std::uint32_t stride, std::uint64_t vectors) {
    Groups<kVectorWords, kInFlight>(
        move,
        [&](std::uint32_t s, std::uint32_t m, auto* group) {
          const std::uint64_t i = first + m * stride;
          Vector v{};
          if (i < vectors) v = LoadVector(move.sources[s], i);
          TUTTI_UNROLL
          for (std::uint32_t w = 0; w < kVectorWords; ++w) group->words[w] = v.words[w];
          return true;
        },
        [&](std::uint32_t m, const auto& group) {
          const std::uint64_t i = first + m * stride;
          if (i >= vectors) return;
          Vector v;
          TUTTI_UNROLL
          for (std::uint32_t w = 0; w < kVectorWords; ++w) v.words[w] = group.words[w];
          TUTTI_ROLLED
          for (std::uint32_t d = 0; d < move.destination_count; ++d) {
            StoreVector(move.destinations[d], i, v);
          }
        });
  }

  TUTTI_DEVICE static void Elements(const Move& move, std::uint64_t from_byte) {
    const A scalar = Scalar(move);
    TUTTI_ROLLED
    for (std::uint64_t i = from_byte / sizeof(T) + ThreadIndex(); i < move.bytes / sizeof(T); i += ThreadCount()) {
      const auto contribution = [&](std::uint32_t s) {
        return Contribution(reinterpret_cast<const T*>(move.sources[s])[i], (move.scaled >> s & 1) != 0, scalar);
      };
      A sum = contribution(0);
      TUTTI_ROLLED
      for (std::uint32_t s = 1; s < move.source_count; ++s) sum = Op::Combine(sum, contribution(s));
      const T result = Result(move, sum);
      TUTTI_ROLLED
      for (std::uint32_t d = 0; d < move.destination_count; ++d) reinterpret_cast<T*>(move.destinations[d])[i] = result;
    }
  }

  TUTTI_DEVICE static bool Packets(const Move& move) {
    return ForEachPacket(move, [&](std::uint32_t p, std::uint32_t bytes, bool aligned, std::uint64_t* word) {
      return Groups<2, 1>(
          move,
          [&](std::uint32_t s, std::uint32_t, auto* group) {
            std::uint64_t data = 0;
            if (!LoadSource(move, s, p, bytes, aligned, &data)) return false;
            group->words[0] = static_cast<std::uint32_t>(data);
            group->words[1] = static_cast<std::uint32_t>(data >> 32);
            return true;
          },
          [&](std::uint32_t, const auto& group) { *word = group.words[0] | std::uint64_t{group.words[1]} << 32; });
    });
  }

  TUTTI_DEVICE_CALL static bool Run(const Move& move) {
    if (move.packets) return Packets(move);
    if (!AllAligned<Vector>(move)) {
      Elements(move, 0);
      return true;
    }
    const std::uint64_t vectors = move.bytes / kVectorBytes;
    const std::uint32_t threads = ThreadCount();
    TUTTI_ROLLED
    for (std::uint64_t i = ThreadIndex(); i < vectors; i += kInFlight * threads) Vectors(move, i, threads, vectors);
    Elements(move, vectors * kVectorBytes);
    return true;
  }
};

template <typename Codec>
TUTTI_DEVICE bool ReduceAs(const Move& move, std::uint32_t op) {
  switch (op) {
    case tuttiSum: return move.scaled != 0 ? Reduction<Codec, Add, true>::Run(move) : Reduction<Codec, Add>::Run(move);
    case tuttiProd: return Reduction<Codec, Multiply>::Run(move);
    case tuttiMax: return Reduction<Codec, Maximum>::Run(move);
    default: return Reduction<Codec, Minimum>::Run(move);
  }
}

// False if told to stop.
TUTTI_DEVICE bool Reduce(const Move& move) {
  const std::uint32_t op = move.reducer % kReducerOps;
  switch (move.reducer / kReducerOps) {
    case tuttiInt8: return ReduceAs<Plain<std::int8_t>>(move, op);
    case tuttiUint8: return ReduceAs<Plain<std::uint8_t>>(move, op);
    case tuttiInt32: return ReduceAs<Plain<std::int32_t>>(move, op);
    case tuttiUint32: return ReduceAs<Plain<std::uint32_t>>(move, op);
    case tuttiInt64: return ReduceAs<Plain<std::int64_t>>(move, op);
    case tuttiUint64: return ReduceAs<Plain<std::uint64_t>>(move, op);
    case tuttiFloat16: return ReduceAs<Low<Float16>>(move, op);
    case tuttiFloat32: return ReduceAs<Plain<float>>(move, op);
    case tuttiFloat64: return ReduceAs<Plain<double>>(move, op);
    case tuttiBfloat16: return ReduceAs<Low<Bfloat16>>(move, op);
    case tuttiFloat8e4m3: return ReduceAs<Low<Float8E4M3>>(move, op);
    default: return ReduceAs<Low<Float8E5M2>>(move, op);
  }
}

}  // namespace tutti
