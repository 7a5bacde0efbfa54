// One step's data, moved by a block: any number of sources, reduced if there are several, into any number of
// destinations, in one pass. Sources and destinations are memory, strided or not (places.h), or packets (packet.h).
//
// Moves 16-byte vectors, several in flight per thread, where all pointers are equal modulo 16; otherwise elements.
//
// Thread-safety: called by all threads of a block, which share one Move.
#pragma once

#include "executors/cuda/kernels/copy.h"
#include "executors/cuda/kernels/reduction.h"

namespace tutti::cuda_kernels {

// Signed and unsigned integers have the same sums and products, so one instantiation serves both.
template <typename Codec>
struct SignlessOf {
  using Type = Codec;
};
template <typename T>
requires std::is_integral_v<T>
struct SignlessOf<Plain<T>> {
  using Type = Plain<std::make_unsigned_t<T>>;
};

template <typename Codec, typename Layout>
TUTTI_DEVICE bool ReduceAs(const Move& move, std::uint32_t op) {
  using Signless = typename SignlessOf<Codec>::Type;
  switch (op) {
    case tuttiSum:
      if (move.scaled != 0 || move.divisor > 1) return Reduction<Codec, Add, Layout, true>::Run(move);
      return Reduction<Signless, Add, Layout>::Run(move);
    case tuttiProd: return Reduction<Signless, Multiply, Layout>::Run(move);
    case tuttiMax: return Reduction<Codec, Maximum, Layout>::Run(move);
    default: return Reduction<Codec, Minimum, Layout>::Run(move);
  }
}

// False if told to stop.
template <typename Layout>
TUTTI_DEVICE bool Reduce(const Move& move) {
  const std::uint32_t op = move.reducer % kReducerOps;
  switch (move.reducer / kReducerOps) {
    case tuttiInt8: return ReduceAs<Plain<std::int8_t>, Layout>(move, op);
    case tuttiUint8: return ReduceAs<Plain<std::uint8_t>, Layout>(move, op);
    case tuttiInt32: return ReduceAs<Plain<std::int32_t>, Layout>(move, op);
    case tuttiUint32: return ReduceAs<Plain<std::uint32_t>, Layout>(move, op);
    case tuttiInt64: return ReduceAs<Plain<std::int64_t>, Layout>(move, op);
    case tuttiUint64: return ReduceAs<Plain<std::uint64_t>, Layout>(move, op);
    case tuttiFloat16: return ReduceAs<Low<Float16>, Layout>(move, op);
    case tuttiFloat32: return ReduceAs<Plain<float>, Layout>(move, op);
    case tuttiFloat64: return ReduceAs<Plain<double>, Layout>(move, op);
    case tuttiBfloat16: return ReduceAs<Low<Bfloat16>, Layout>(move, op);
    case tuttiFloat8e4m3: return ReduceAs<Low<Float8E4M3>, Layout>(move, op);
    default: return ReduceAs<Low<Float8E5M2>, Layout>(move, op);
  }
}

// Executes a step's move. False if told to stop.
template <typename Layout>
TUTTI_DEVICE bool Carry(const Move& move) {
  return move.arithmetic ? Reduce<Layout>(move) : Copy<Layout>(move);
}
// Not inlined: the interpreter's registers are for the usual steps.
TUTTI_DEVICE_CALL bool CarryWalked(const Move& move) { return Carry<Walked>(move); }

}  // namespace tutti::cuda_kernels
