// One step's data, moved by a block: any number of sources, reduced if there are several, into any number of
// destinations, in one pass. Sources and destinations are memory or packets (packet.h).
//
// Vectors of 16 bytes, several in flight a thread, where all pointers are alike modulo 16; elements where they are not.
//
// Thread-safety: called by all threads of a block, which share one Move.
#pragma once

#include "executors/cuda/copy.h"
#include "executors/cuda/reduction.h"

namespace tutti {

// Signed and unsigned integers have the same sums and products, so that one's code does for both.
template <typename Codec>
struct SignlessOf {
  using Type = Codec;
};
template <typename T>
requires std::is_integral_v<T>
struct SignlessOf<Plain<T>> {
  using Type = Plain<std::make_unsigned_t<T>>;
};

template <typename Codec>
TUTTI_DEVICE bool ReduceAs(const Move& move, std::uint32_t op) {
  using Signless = typename SignlessOf<Codec>::Type;
  switch (op) {
    case tuttiSum:
      if (move.scaled != 0 || move.divisor > 1) return Reduction<Codec, Add, true>::Run(move);
      return Reduction<Signless, Add>::Run(move);
    case tuttiProd: return Reduction<Signless, Multiply>::Run(move);
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
