// The tables of data types and of the reduction operators' names. A new data type is an enumerator of tutti.h, a case of
// VisitDataType and a row of kDataTypes; its kernels and all else follow from these.
//
// Thread-safety: constants and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/numbers/lowp.h"
#include "tutti/tutti.h"

namespace tutti {

constexpr bool IsDataType(int type) { return type >= 0 && type < tuttiNumTypes; }

// Calls visit with a std::type_identity of the type's element: an arithmetic type, or a format (lowp.h) where C++ has
// none. REQUIRES: IsDataType(type).
template <typename Visit>
constexpr decltype(auto) VisitDataType(tuttiDataType_t type, Visit&& visit) {
  switch (type) {
    case tuttiInt8: return visit(std::type_identity<std::int8_t>());
    case tuttiUint8: return visit(std::type_identity<std::uint8_t>());
    case tuttiInt32: return visit(std::type_identity<std::int32_t>());
    case tuttiUint32: return visit(std::type_identity<std::uint32_t>());
    case tuttiInt64: return visit(std::type_identity<std::int64_t>());
    case tuttiUint64: return visit(std::type_identity<std::uint64_t>());
    case tuttiFloat16: return visit(std::type_identity<Float16>());
    case tuttiFloat32: return visit(std::type_identity<float>());
    case tuttiFloat64: return visit(std::type_identity<double>());
    case tuttiBfloat16: return visit(std::type_identity<Bfloat16>());
    case tuttiFloat8e4m3: return visit(std::type_identity<Float8E4M3>());
    case tuttiFloat8e5m2: return visit(std::type_identity<Float8E5M2>());
    case tuttiInt16: return visit(std::type_identity<std::int16_t>());
    case tuttiUint16: return visit(std::type_identity<std::uint16_t>());
    case tuttiNumTypes: break;
  }
  __builtin_unreachable();
}

struct DataType {
  tuttiDataType_t type = tuttiNumTypes;
  std::string_view name;
  std::string_view nccl_tests_name;
  std::string_view synonym = {};  // that options take, too
};
inline constexpr std::array<DataType, tuttiNumTypes> kDataTypes = {{
    {tuttiInt8, "int8", "int8", "char"},
    {tuttiUint8, "uint8", "uint8"},
    {tuttiInt32, "int32", "int32", "int"},
    {tuttiUint32, "uint32", "uint32"},
    {tuttiInt64, "int64", "int64"},
    {tuttiUint64, "uint64", "uint64"},
    {tuttiFloat16, "float16", "half", "f16"},
    {tuttiFloat32, "float32", "float", "f32"},
    {tuttiFloat64, "float64", "double"},
    {tuttiBfloat16, "bfloat16", "bfloat16", "bf16"},
    {tuttiFloat8e4m3, "float8e4m3", "f8e4m3", "fp8_e4m3"},
    {tuttiFloat8e5m2, "float8e5m2", "f8e5m2", "fp8_e5m2"},
    {tuttiInt16, "int16", "int16", "short"},
    {tuttiUint16, "uint16", "uint16"},
}};

constexpr bool DataTypesAreInOrder() {
  for (std::size_t i = 0; i < kDataTypes.size(); ++i) {
    if (kDataTypes[i].type != static_cast<tuttiDataType_t>(i)) return false;
  }
  return true;
}
static_assert(DataTypesAreInOrder(), "each data type has its row, at its number");

// By element, as VisitDataType gives it.
template <typename Element>
inline constexpr bool kIsFormat = !std::is_arithmetic_v<Element>;
template <typename Element>
inline constexpr bool kIsFloat = kIsFormat<Element> || std::is_floating_point_v<Element>;

template <typename Element>
struct StorageOf {
  using Type = Element;
};
template <typename Element>
requires kIsFormat<Element>
struct StorageOf<Element> {
  using Type = typename Element::Storage;
};
// The C++ type that has the element's bits.
template <typename Element>
using Storage = typename StorageOf<Element>::Type;

// By tuttiDataType_t: what `value` gives for each element.
template <typename Value>
constexpr auto OfEachDataType(Value value) {
  std::array<decltype(value(std::type_identity<float>())), tuttiNumTypes> values{};
  for (const auto& row : kDataTypes) values[static_cast<std::size_t>(row.type)] = VisitDataType(row.type, value);
  return values;
}

// A table, because every call reads it.
inline constexpr auto kTypeBytes =
    OfEachDataType([]<typename Element>(std::type_identity<Element>) { return sizeof(Storage<Element>); });

// REQUIRES of these: IsDataType(type).
constexpr std::size_t SizeOf(tuttiDataType_t type) { return kTypeBytes[static_cast<std::size_t>(type)]; }
constexpr bool IsFloat(tuttiDataType_t type) {
  return VisitDataType(type, []<typename Element>(std::type_identity<Element>) { return kIsFloat<Element>; });
}
constexpr bool IsSigned(tuttiDataType_t type) {
  return VisitDataType(type,
                       []<typename Element>(std::type_identity<Element>) { return !std::is_unsigned_v<Element>; });
}
// The type whose elements are Elements; integers are the same if size and sign are. nullopt: there is none.
template <typename Element>
constexpr std::optional<tuttiDataType_t> DataTypeOf() {
  for (const auto& row : kDataTypes) {
    const bool is_it = VisitDataType(row.type, []<typename Candidate>(std::type_identity<Candidate>) {
      if constexpr (std::is_integral_v<Element> && std::is_integral_v<Candidate>) {
        return sizeof(Element) == sizeof(Candidate) && std::is_signed_v<Element> == std::is_signed_v<Candidate>;
      } else {
        return std::is_same_v<Element, Candidate>;
      }
    });
    if (is_it) return row.type;
  }
  return std::nullopt;
}
// Accumulated in more bits than it has, so that every hop of a partial sum rounds it.
constexpr bool IsLowPrecision(tuttiDataType_t type) {
  return VisitDataType(type, []<typename Element>(std::type_identity<Element>) { return kIsFormat<Element>; });
}
constexpr std::string_view NcclTestsName(tuttiDataType_t type) {
  return kDataTypes[static_cast<std::size_t>(type)].nccl_tests_name;
}

// "float32", "bfloat16", ... ; "?" for a value that is no type.
constexpr std::string_view NameOf(tuttiDataType_t type) {
  return IsDataType(type) ? kDataTypes[static_cast<std::size_t>(type)].name : std::string_view("?");
}
// By any of its names.
constexpr std::optional<tuttiDataType_t> DataTypeNamed(std::string_view name) {
  for (const auto& row : kDataTypes) {
    if (!name.empty() && (name == row.name || name == row.nccl_tests_name || name == row.synonym)) return row.type;
  }
  return std::nullopt;
}

// By tuttiRedOp_t.
inline constexpr std::array<std::string_view, tuttiNumOps> kOpNames = {"sum", "prod", "max", "min", "avg"};
static_assert(!kOpNames.back().empty(), "each operator has a name");

// "sum", ... ; "premulsum" for user-made operators.
constexpr std::string_view NameOf(tuttiRedOp_t op) {
  return op >= 0 && op < tuttiNumOps ? kOpNames[static_cast<std::size_t>(op)] : std::string_view("premulsum");
}
constexpr std::optional<tuttiRedOp_t> OpNamed(std::string_view name) {
  for (std::size_t op = 0; op < kOpNames.size(); ++op) {
    if (name == kOpNames[op]) return static_cast<tuttiRedOp_t>(op);
  }
  return std::nullopt;
}

}  // namespace tutti
