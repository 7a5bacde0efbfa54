// Names and sizes of element types and operators, as nccl-tests prints them. The bench uses only the public header and
// so cannot use base/numbers/datatype.h. Pure functions; thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "tutti/tutti.h"

namespace tutti::bench {

inline constexpr std::array<std::size_t, tuttiNumTypes> kTypeSizes = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
inline constexpr std::array<std::string_view, tuttiNumTypes> kTypeNames = {
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
inline constexpr std::array<std::string_view, tuttiNumOps> kOpNames = {"sum", "prod", "max", "min", "avg"};

// REQUIRES: a predefined type, a predefined operator.
constexpr std::size_t SizeOf(tuttiDataType_t type) { return kTypeSizes[type]; }
constexpr std::string_view NameOf(tuttiDataType_t type) { return kTypeNames[type]; }
constexpr std::string_view NameOf(tuttiRedOp_t op) { return kOpNames[op]; }
constexpr bool IsFloat(tuttiDataType_t type) { return type >= tuttiFloat16; }
constexpr bool IsSigned(tuttiDataType_t type) {
  return type != tuttiUint8 && type != tuttiUint32 && type != tuttiUint64;
}

// Accepts nccl-tests' names and the usual synonyms (float16, float32, float64, bf16, fp8_e4m3, ...).
std::optional<tuttiDataType_t> TypeNamed(std::string_view name);
std::optional<tuttiRedOp_t> OpNamed(std::string_view name);

}  // namespace tutti::bench
