// What an array's elements are, and which of the library's types carries them in a call.
//
// Thread-safety: pure functions, except Fail's (failure.h), which need the GIL.
#pragma once

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti_python {

enum class Kind : std::uint8_t {
  kSigned,
  kUnsigned,
  kFloat,
  kBfloat16,
  kFloat8E4M3,
  kFloat8E5M2,
  kComplex,
  kBool,
  kOpaque  // plain bytes that no operator understands
};

struct Element {
  Kind kind = Kind::kUnsigned;
  std::size_t bytes = 1;

  bool operator==(const Element&) const = default;
};

// One element of an array is `per_element` elements of `type`.
struct Carrier {
  tuttiDataType_t type;
  std::size_t per_element;
};

// For calls that only move data: every element has a carrier.
Carrier MovedAs(const Element& element);
// For reductions: with the operator that does on the carrier what `op` does on the elements.
struct Reducer {
  tuttiDataType_t type;
  std::size_t per_element;
  tuttiRedOp_t op;
};
// Raises InvalidArgumentError if the library has no such operator for these elements.
Reducer ReducedAs(const Element& element, tuttiRedOp_t op);

// Of a format of the buffer protocol, in the machine's byte order. Empty: a structure, an object, or foreign bytes.
std::optional<Element> ElementOfFormat(const char* format, std::size_t bytes);
// Of a type string of NumPy's array interface, e.g. "<f4".
std::optional<Element> ElementOfTypestr(std::string_view typestr);
// Of the name of a dtype that the buffer protocol cannot describe, e.g. "bfloat16".
std::optional<Element> ElementOfName(std::string_view name, std::size_t bytes);
// Of DLPack's type code, bits and lanes.
std::optional<Element> ElementOfDlpack(std::uint8_t code, std::uint8_t bits, std::uint16_t lanes);

// The element that a type of the library has.
Element ElementOf(tuttiDataType_t type);
// DLPack's type code.
std::uint8_t DlpackCodeOf(const Element& element);

// For messages: "float32".
std::string NameOf(const Element& element);

}  // namespace tutti_python
