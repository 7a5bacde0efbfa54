// How a plan's slots are shaped.
//
// Thread-safety: value type.
#pragma once

#include <cstddef>

#include "transports/ring/layout.h"
#include "transports/ring/slot.h"

namespace tutti {

struct Shape {
  Wire wire = Wire::bulk;
  std::size_t chunk_bytes = 0;  // of each block at a time; a multiple of 64 unless it covers whole blocks

  friend bool operator==(const Shape&, const Shape&) = default;
};

// Slots of a connection, as transports have them.
constexpr int SlotDepth(Wire wire) {
  return static_cast<int>(wire == Wire::line      ? kLineShape.depth
                          : wire == Wire::inlined ? kInlineShape.depth
                                                  : kBulkDepth);
}

}  // namespace tutti
