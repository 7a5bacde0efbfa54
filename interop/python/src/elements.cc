#include "elements.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <type_traits>

#include "base/numbers/datatype.h"
#include "failure.h"

namespace tutti_python {
namespace {

template <typename Native>
constexpr Kind KindOf() {
  if (std::is_same_v<Native, tutti::Bfloat16>) return Kind::kBfloat16;
  if (std::is_same_v<Native, tutti::Float8E4M3>) return Kind::kFloat8E4M3;
  if (std::is_same_v<Native, tutti::Float8E5M2>) return Kind::kFloat8E5M2;
  if (tutti::kIsFloat<Native>) return Kind::kFloat;
  return std::is_signed_v<Native> ? Kind::kSigned : Kind::kUnsigned;
}
// The elements that the library's types are, by tuttiDataType_t.
constexpr auto kNative = tutti::OfEachDataType([]<typename Native>(std::type_identity<Native>) {
  return Element{KindOf<Native>(), sizeof(tutti::Storage<Native>)};
});

// Floats that the buffer protocol cannot describe: the names of their dtypes, and their DLDataTypeCode of DLPack 1.1.
struct NamedFloat {
  Element element;
  const char* name;
  std::uint8_t dlpack;
};
constexpr NamedFloat kNamedFloats[] = {{{Kind::kBfloat16, 2}, "bfloat16", 4},
                                       {{Kind::kFloat8E4M3, 1}, "float8_e4m3fn", 10},
                                       {{Kind::kFloat8E5M2, 1}, "float8_e5m2", 12}};

// The other kinds' DLDataTypeCode.
enum : std::uint8_t { kInt, kUint, kFloat, kComplex = 5, kBool };

std::optional<tuttiDataType_t> NativeType(const Element& element) {
  const auto* const found = std::ranges::find(kNative, element);
  if (found == kNative.end()) return std::nullopt;
  return static_cast<tuttiDataType_t>(found - kNative.begin());
}

// "int8, uint8, ..., float8_e5m2".
std::string NativeNames() {
  std::string names;
  for (const auto& element : kNative) names += (names.empty() ? "" : ", ") + NameOf(element);
  return names;
}

const char* NameOf(tuttiRedOp_t op) {
  switch (op) {
    case tuttiSum: return "sum";
    case tuttiProd: return "prod";
    case tuttiMax: return "max";
    case tuttiMin: return "min";
    case tuttiAvg: return "avg";
    default: return "an unknown operator";
  }
}

}  // namespace

Carrier MovedAs(const Element& element) {
  if (const auto type = NativeType(element)) return {*type, 1};
  return {tuttiUint8, element.bytes};
}

Reducer ReducedAs(const Element& element, tuttiRedOp_t op) {
  if (const auto type = NativeType(element)) return {*type, 1, op};
  // A sum of complex numbers is the sums of their parts.
  if (element.kind == Kind::kComplex && (op == tuttiSum || op == tuttiAvg)) {
    if (const auto part = NativeType({Kind::kFloat, element.bytes / 2})) return {*part, 2, op};
  }
  // Every byte but 0 is true. The least of several bytes is 0 exactly if one of them is; their product may be 256.
  if (element.kind == Kind::kBool && (op == tuttiProd || op == tuttiMin)) return {tuttiUint8, 1, tuttiMin};
  if (element.kind == Kind::kBool && op == tuttiMax) return {tuttiUint8, 1, tuttiMax};
  Fail(tuttiInvalidArgument, NameOf(element) + " has no operator " + NameOf(op) + ": reductions take " + NativeNames() +
                                 "; complex64 and complex128 with sum and avg; bool with prod, max and min");
}

std::optional<Element> ElementOfFormat(const char* format, std::size_t bytes) {
  if (format == nullptr) return Element{Kind::kUnsigned, 1};
  std::string_view text(format);
  if (!text.empty() &&
      (text[0] == '@' || text[0] == '=' || text[0] == (std::endian::native == std::endian::little ? '<' : '>') ||
       (bytes == 1 && (text[0] == '>' || text[0] == '<' || text[0] == '!')))) {
    text.remove_prefix(1);
  }
  if (text.size() == 2 && text[0] == 'Z') return Element{Kind::kComplex, bytes};
  if (text.size() != 1) return std::nullopt;
  switch (text[0]) {
    case '?': return Element{Kind::kBool, bytes};
    case 'c': return Element{Kind::kOpaque, bytes};
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n': return Element{Kind::kSigned, bytes};
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N': return Element{Kind::kUnsigned, bytes};
    case 'e':
    case 'f':
    case 'd':
    case 'g': return Element{Kind::kFloat, bytes};
    default: return std::nullopt;
  }
}

std::optional<Element> ElementOfTypestr(std::string_view typestr) {
  constexpr std::size_t kShortest = 3;  // order, kind, bytes
  if (typestr.size() < kShortest) return std::nullopt;
  std::size_t bytes = 0;
  const auto digits = typestr.substr(2);
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
  if (status != std::errc() || end != digits.data() + digits.size() || bytes == 0) return std::nullopt;
  const char native = std::endian::native == std::endian::little ? '<' : '>';
  if (typestr[0] != native && typestr[0] != '|' && typestr[0] != '=') return std::nullopt;
  switch (typestr[1]) {
    case 'b': return Element{Kind::kBool, bytes};
    case 'i': return Element{Kind::kSigned, bytes};
    case 'u': return Element{Kind::kUnsigned, bytes};
    case 'f': return bytes == 1 ? std::nullopt : std::optional(Element{Kind::kFloat, bytes});
    case 'c': return Element{Kind::kComplex, bytes};
    default: return std::nullopt;
  }
}

std::optional<Element> ElementOfName(std::string_view name, std::size_t bytes) {
  for (const auto& named : kNamedFloats) {
    if (name == named.name && bytes == named.element.bytes) return named.element;
  }
  // Types of other packages that hold plain numbers: they can be moved.
  for (const std::string_view prefix :
       {"float8_", "float6_", "float4_", "int4", "uint4", "int2", "uint2", "int1", "uint1"}) {
    if (name.starts_with(prefix) && bytes == 1) return Element{Kind::kOpaque, 1};
  }
  return std::nullopt;
}

std::optional<Element> ElementOfDlpack(std::uint8_t code, std::uint8_t bits, std::uint16_t lanes) {
  constexpr std::uint8_t kFirstFloat8 = 7, kLastFloat8 = 14;
  constexpr unsigned kBitsInByte = 8;
  if (lanes != 1 || bits == 0 || bits % kBitsInByte != 0) return std::nullopt;
  const std::size_t bytes = bits / kBitsInByte;
  for (const auto& named : kNamedFloats) {
    if (code == named.dlpack && bytes == named.element.bytes) return named.element;
  }
  switch (code) {
    case kInt: return Element{Kind::kSigned, bytes};
    case kUint: return Element{Kind::kUnsigned, bytes};
    case kFloat: return Element{Kind::kFloat, bytes};
    case kComplex: return Element{Kind::kComplex, bytes};
    case kBool: return Element{Kind::kBool, bytes};
    default:
      if (code >= kFirstFloat8 && code <= kLastFloat8) return Element{Kind::kOpaque, bytes};
      return std::nullopt;
  }
}

Element ElementOf(tuttiDataType_t type) { return kNative[static_cast<std::size_t>(type)]; }

std::uint8_t DlpackCodeOf(const Element& element) {
  const auto* const named = std::ranges::find(kNamedFloats, element, &NamedFloat::element);
  if (named != std::end(kNamedFloats)) return named->dlpack;
  switch (element.kind) {
    case Kind::kSigned: return kInt;
    case Kind::kFloat: return kFloat;
    case Kind::kComplex: return kComplex;
    case Kind::kBool: return kBool;
    default: return kUint;
  }
}

std::string NameOf(const Element& element) {
  constexpr std::size_t kBitsInByte = 8;
  const auto bits = std::to_string(element.bytes * kBitsInByte);
  const auto* const named = std::ranges::find(kNamedFloats, element, &NamedFloat::element);
  if (named != std::end(kNamedFloats)) return named->name;
  switch (element.kind) {
    case Kind::kSigned: return "int" + bits;
    case Kind::kUnsigned: return "uint" + bits;
    case Kind::kFloat: return "float" + bits;
    case Kind::kComplex: return "complex" + bits;
    case Kind::kBool: return "bool";
    case Kind::kOpaque: return "an opaque element of " + bits + " bits";
    default: return "an unknown element";
  }
}

}  // namespace tutti_python
