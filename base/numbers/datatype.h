// Names and sizes of the element types and reduction operators.
#pragma once

#include <cstddef>
#include <string_view>

#include "tutti/tutti.h"

namespace tutti {

// By tuttiDataType_t. Not local to SizeOf, which would build it on the stack in each call.
inline constexpr std::size_t kTypeBytes[tuttiNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

constexpr bool IsDataType(int type) { return type >= 0 && type < tuttiNumTypes; }

// REQUIRES: IsDataType(type). Bytes of one element.
constexpr std::size_t SizeOf(tuttiDataType_t type) { return kTypeBytes[type]; }

constexpr bool IsFloat(tuttiDataType_t type) { return type >= tuttiFloat16; }
// A type that is accumulated in more bits than it has, so that every hop of a partial sum rounds it.
constexpr bool IsLowPrecision(tuttiDataType_t type) { return IsFloat(type) && SizeOf(type) <= 2; }

// "float32", "bfloat16", ... ; "?" for a value that is no type.
constexpr std::string_view NameOf(tuttiDataType_t type) {
  constexpr std::string_view kNames[tuttiNumTypes] = {"int8",    "uint8",    "int32",      "uint32",
                                                      "int64",   "uint64",   "float16",    "float32",
                                                      "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return IsDataType(type) ? kNames[type] : std::string_view("?");
}

// "sum", ... ; "premulsum" for user-made operators.
constexpr std::string_view NameOf(tuttiRedOp_t op) {
  constexpr std::string_view kNames[tuttiNumOps] = {"sum", "prod", "max", "min", "avg"};
  return op >= 0 && op < tuttiNumOps ? kNames[op] : std::string_view("premulsum");
}

}  // namespace tutti
