// The part of Run that reads and writes tensors with gaps.
#include <algorithm>
#include <array>

#include "executors/host/run.h"

namespace tutti::host {

// Moves piece by piece, each piece within one run of every strided operand. `move` points to the packed bytes from
// `done` on, where that is memory; pointers of strided operands are recomputed.
void Run::MoveStrided(const BoundStep& step, Move move, std::size_t done, std::size_t bytes) const {
  struct Walk {
    schedule::StridedCursor cursor;
    std::byte* base = nullptr;  // null: dense
  };
  std::array<Walk, host_kernels::kMaxReduceSources> sources;
  std::array<Walk, host_kernels::kMaxReduceDestinations> destinations;
  const auto walk = [&](Walk& along, const BoundOperand& operand) {
    const auto* const strided = StridedOf(operand);
    if (strided == nullptr) return;
    along.cursor = schedule::StridedCursor(*strided, operand.offset + done);
    along.base = operand.kind == schedule::OperandKind::input ? const_cast<std::byte*>(launch_.input) : launch_.output;
  };
  for (int i = 0; i < move.source_count; ++i) walk(sources[static_cast<std::size_t>(i)], step.reads[i]);
  for (int i = 0; i < move.destination_count; ++i) walk(destinations[static_cast<std::size_t>(i)], *move.written[i]);
  const auto each = [&](const auto& function) {
    for (int i = 0; i < move.source_count; ++i) function(sources[static_cast<std::size_t>(i)], move.sources[i]);
    for (int i = 0; i < move.destination_count; ++i) {
      function(destinations[static_cast<std::size_t>(i)], move.destinations[i]);
    }
  };
  while (bytes > 0) {
    std::size_t piece = bytes;
    each([&](Walk& along, auto& pointer) {
      if (along.base == nullptr) return;
      pointer = along.base + along.cursor.place();
      piece = std::min(piece, along.cursor.left());
    });
    MoveBytes(move, piece);
    bytes -= piece;
    each([&](Walk& along, auto& pointer) {
      if (along.base != nullptr) {
        along.cursor.Advance(piece);
      } else if (bytes > 0) {
        pointer = const_cast<std::byte*>(static_cast<const std::byte*>(pointer)) + piece;
      }
    });
  }
}

}  // namespace tutti::host
