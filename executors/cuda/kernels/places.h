// Where the bytes of a step's operands lie. A step moves packed bytes 0, 1, ...; most operands are contiguous (Dense),
// but a tensor's may be strided (Walked). Copies are compiled for each, so that dense ones do not pay for strided ones.
//
// Thread-safety: pure functions of a Move.
#pragma once

#include "algorithms/schedule/strided.h"
#include "executors/cuda/kernels/device.h"

namespace tutti::cuda_kernels {

// The walk through an operand, in a step with strided operands.
struct Walk {
  const schedule::Strided* strided;  // null: this operand is dense
  schedule::Strided::Position from;  // of the step's first byte
  std::byte* buffer;                 // its start
};

// Not inlined: the interpreter's registers are for the usual steps.
TUTTI_DEVICE_CALL void BeginAt(Walk& walk, std::uint64_t packed) { walk.from = walk.strided->At(packed); }

// The value that pointers share modulo a power of two. For strided operands, the packed offset counts instead of the
// pointer; but a vector must neither cross the end of a run nor be misaligned in another run.
class Alignment {
 public:
  TUTTI_DEVICE void See(const std::byte* pointer) { See(Low(pointer), 0); }
  TUTTI_DEVICE void See(const std::byte* base, const Walk& walk) {
    if (walk.strided == nullptr) return See(base);
    See(static_cast<std::uint32_t>(walk.from.in_run % kVectorBytes),
        Low(base) | static_cast<std::uint32_t>(walk.strided->grain() % kVectorBytes));
  }

  // For widths that are powers of two, at most a vector's: whether all operands lie at a multiple, whether all lie
  // equally far past one, and the bytes from there to the next.
  TUTTI_DEVICE bool All(std::uint32_t width) const { return (low_ | difference_) % width == 0; }
  TUTTI_DEVICE bool Alike(std::uint32_t width) const { return difference_ % width == 0; }
  TUTTI_DEVICE std::uint32_t ToNext(std::uint32_t width) const { return (width - low_ % width) % width; }

 private:
  TUTTI_DEVICE static std::uint32_t Low(const std::byte* pointer) {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pointer)) % kVectorBytes;
  }
  TUTTI_DEVICE void See(std::uint32_t low, std::uint32_t unlike) {
    if (!any_) low_ = low;
    any_ = true;
    difference_ |= (low ^ low_) | unlike;
  }

  bool any_ = false;
  std::uint32_t low_ = 0;
  std::uint32_t difference_ = 0;
};

// An operand whose bytes are contiguous from `pointer` on.
template <typename Byte>
struct DensePlaces {
  Byte* pointer;
  TUTTI_DEVICE Byte* operator()(std::uint32_t byte) const { return pointer + byte; }
};

// Not inlined: loops that find many places at once are compiled for every type and operator.
TUTTI_DEVICE_CALL std::size_t PlaceOf(const Walk& walk, std::uint32_t byte) {
  return walk.strided->PlaceOf(walk.strided->Further(walk.from, byte));
}

// The bytes of a strided operand from the step's byte `begin` on.
struct PartPlaces {
  const Walk& walk;
  std::uint32_t begin;
  TUTTI_DEVICE std::byte* operator()(std::uint32_t byte) const { return walk.buffer + PlaceOf(walk, begin + byte); }
};

// An operand that may be strided; then `base` is the start of its buffer.
template <typename Byte>
struct WalkedPlaces {
  Byte* base;
  const Walk& walk;
  TUTTI_DEVICE Byte* operator()(std::uint32_t byte) const {
    return base + (walk.strided == nullptr ? byte : PlaceOf(walk, byte));
  }
};

}  // namespace tutti::cuda_kernels
