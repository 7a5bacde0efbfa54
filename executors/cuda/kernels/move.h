// One step's data, moved by a block: any number of sources, reduced if there are several, into any number of
// destinations, in one pass. Sources and destinations are memory, strided or not (places.h), or packets (packet.h).
//
// Moves 16-byte vectors, several in flight per thread, where all pointers are equal modulo 16; otherwise elements.
//
// Thread-safety: called by all threads of a block, which share one Move.
#pragma once

#include "executors/cuda/kernels/copy.h"
#include "executors/cuda/kernels/reduction.h"
#include "executors/cuda/kernels/staging.h"

namespace tutti::cuda_kernels {

template <typename Reduction>
TUTTI_DEVICE bool ReduceBy(const Move& move) {
  return move.lines ? Reduction::RunLines(move) : Reduction::Run(move);
}

template <typename Codec>
TUTTI_DEVICE bool ReduceAs(const Move& move, std::uint32_t op) {
  using Signless = typename SignlessOf<Codec>::Type;
  switch (op) {
    case tuttiSum:
      if (move.scaled != 0 || move.divisor > 1) return ReduceBy<Reduction<Codec, Add, true>>(move);
      return ReduceBy<Reduction<Signless, Add>>(move);
    case tuttiProd: return ReduceBy<Reduction<Signless, Multiply>>(move);
    case tuttiMax: return ReduceBy<Reduction<Codec, Maximum>>(move);
    default: return ReduceBy<Reduction<Codec, Minimum>>(move);
  }
}

// False if told to stop. REQUIRES: all operands are dense.
TUTTI_DEVICE bool Reduce(const Move& move) {
  return VisitCodec(TypeOfReducer(move.reducer),
                    [&](auto codec) { return ReduceAs<decltype(codec)>(move, move.reducer % kReducerOps); });
}

// Executes a step's move. False if told to stop. REQUIRES: all operands are dense.
TUTTI_DEVICE bool Carry(const Move& move) { return move.arithmetic ? Reduce(move) : CopyBy<Dense>(move); }

// Executes the move of a step with strided operands: copies are direct, reductions go by parts through staging.
// Not inlined: the interpreter's registers are for the usual steps.
TUTTI_DEVICE_CALL bool CarryWalked(Move& move) {
  if (!move.arithmetic) return CopyBy<Walked>(move);
  return InParts(move, [&] { return Reduce(move); });
}

}  // namespace tutti::cuda_kernels
