// What every call's arguments are checked by.
//
// Thread-safety: pure functions. All throw tuttiInvalidArgument, naming the argument.
#pragma once

#include <cstddef>

#include "tutti/tutti.h"

namespace tutti {

void CheckType(tuttiDataType_t type);
void CheckOp(tuttiRedOp_t op);

// Bytes of `blocks` times `count` elements of `type`, which must be a size that memory can have. A negative count,
// converted, is not.
std::size_t CheckedBytes(const char* name, std::size_t count, std::size_t blocks, tuttiDataType_t type);
// Null and misaligned pointers, and ranges past the end of memory.
void CheckPointer(const char* name, const void* pointer, std::size_t bytes, tuttiDataType_t type);

struct Range {
  const void* begin;
  std::size_t bytes;
};
// True in place: `a`, where that block lies on the sending side, is `b`, where it lies on the receiving side. Throws
// for ranges that overlap in another way.
bool CheckOverlap(const Range& send, const Range& receive, const void* a, const void* b);

}  // namespace tutti
