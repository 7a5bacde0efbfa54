#include "base/plain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

namespace tutti {
namespace {

struct Range {
  char32_t first, last;
};

// Valid UTF-8 that moves a cursor, ends a line, hides, or turns the direction of writing.
constexpr std::array<Range, 9> kUnprintable = {{
    {0x00, 0x1f},         // C0
    {0x7f, 0x9f},         // delete and C1, where one byte more than in ASCII begins a terminal's command
    {0x061c, 0x061c},     // Arabic letter mark
    {0x200e, 0x200f},     // left-to-right and right-to-left marks
    {0x2028, 0x202e},     // line and paragraph separators; embeddings and overrides of direction
    {0x2066, 0x2069},     // isolates of direction
    {0xfeff, 0xfeff},     // byte order mark
    {0xfff9, 0xfffb},     // interlinear annotation
    {0xe0000, 0x1fffff},  // tags, which show nothing, private planes, and beyond Unicode
}};

struct Character {
  std::size_t bytes = 1;
  bool printable = false;
};

// The first character of a text that is not empty. A byte that does not begin valid UTF-8 counts as one character
// that cannot be printed.
Character FirstOf(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xc2 ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4
                                           : 0;
  if (length == 0 || length > text.size()) return {};
  constexpr std::array<std::uint8_t, 5> kLeadBits = {0, 0x7f, 0x1f, 0x0f, 0x07};
  char32_t code = lead & kLeadBits[length];
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  constexpr Range kSurrogates = {0xd800, 0xdfff};
  const auto within = [code](const Range& range) { return range.first <= code && code <= range.last; };
  if (code < kLeast[length] || within(kSurrogates)) return {};
  return {length, std::none_of(kUnprintable.begin(), kUnprintable.end(), within)};
}

}  // namespace

std::string Printable(std::string_view text, std::size_t most) {
  std::string printable;
  while (!text.empty()) {
    const auto [bytes, is_printable] = FirstOf(text);
    std::string escaped;
    for (std::size_t i = 0; i < bytes && !is_printable; ++i) {
      fmt::format_to(std::back_inserter(escaped), "\\x{:02x}", static_cast<std::uint8_t>(text[i]));
    }
    const std::string_view next = is_printable ? text.substr(0, bytes) : escaped;
    if (printable.size() + next.size() > most) return printable + "...";
    printable += next;
    text.remove_prefix(bytes);
  }
  return printable;
}

bool IsPrintable(std::string_view text) {
  while (!text.empty()) {
    const auto [bytes, is_printable] = FirstOf(text);
    if (!is_printable) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string Quoted(std::string_view text, std::size_t most) { return "\"" + Printable(text, most) + "\""; }

}  // namespace tutti
