// Checks of call arguments. A valid argument costs a few instructions, inline; the refusals are functions of their own.
//
// Thread-safety: pure functions. All throw tuttiInvalidArgument, naming the argument.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/numbers/datatype.h"
#include "tutti/tutti.h"

namespace tutti::api {

struct Range {
  const void* begin;
  std::size_t bytes;
};

[[noreturn]] void RefuseType(tuttiDataType_t type);
[[noreturn]] void RefuseOp(tuttiRedOp_t op);
[[noreturn]] void RefuseCount(const char* name, std::size_t count, std::size_t blocks, tuttiDataType_t type);
[[noreturn]] void RefusePointer(const char* name, const void* pointer, std::size_t bytes, tuttiDataType_t type);
[[noreturn]] void RefuseOverlap(const Range& send, const Range& receive);

// No processor gives a program more than 57 bits of addresses.
inline constexpr auto kMostBytes = std::size_t{1} << 56;

inline void CheckType(tuttiDataType_t type) {
  if (!IsDataType(type)) [[unlikely]]
    RefuseType(type);
}

// REQUIRES: user-made operators have been replaced by what they do (src/api/collectives.cc).
inline void CheckOp(tuttiRedOp_t op) {
  if (op < 0 || op >= tuttiNumOps) [[unlikely]]
    RefuseOp(op);
}

// Bytes of `blocks` times `count` elements of `type`, which must be a size that memory can have. A negative count,
// converted, is not.
inline std::size_t CheckedBytes(const char* name, std::size_t count, std::size_t blocks, tuttiDataType_t type) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, blocks * SizeOf(type), &bytes) || bytes > kMostBytes) [[unlikely]]
    RefuseCount(name, count, blocks, type);
  return bytes;
}

// Refuses null and misaligned pointers, and ranges past the end of memory.
inline void CheckPointer(const char* name, const void* pointer, std::size_t bytes, tuttiDataType_t type) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const bool valid = address != 0 && (address & (SizeOf(type) - 1)) == 0 && address + bytes >= address;
  if (bytes != 0 && !valid) [[unlikely]]
    RefusePointer(name, pointer, bytes, type);
}

inline bool Overlap(const Range& one, const Range& other) {
  const auto x = reinterpret_cast<std::uintptr_t>(one.begin), y = reinterpret_cast<std::uintptr_t>(other.begin);
  return x < y + other.bytes && y < x + one.bytes && one.bytes != 0 && other.bytes != 0;
}

// True in place: `a`, where that block lies on the sending side, is `b`, where it lies on the receiving side. Throws
// for ranges that overlap in another way.
inline bool CheckOverlap(const Range& send, const Range& receive, const void* a, const void* b) {
  if (a != nullptr && a == b) return true;
  if (Overlap(send, receive)) [[unlikely]]
    RefuseOverlap(send, receive);
  return false;
}

}  // namespace tutti::api
