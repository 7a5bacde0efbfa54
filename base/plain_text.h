// Text from elsewhere (files, peers, the environment) on its way to a person. Characters that a terminal would obey, or
// that change the order of reading, are escaped. Long texts are cut.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

// A sentence with some names in it. A longer one is an attempt to fill a screen.
inline constexpr std::size_t kMaxSentence = 4096;
// A name, or a value in a message: enough to recognise it.
inline constexpr std::size_t kMaxQuoted = 80;

// `text` in printable UTF-8: bytes that are no UTF-8, control characters (also those beyond ASCII), line ends, and
// marks that turn the direction of writing become \xNN. A text of more than `most` bytes is cut and ends in "...".
std::string Printable(std::string_view text, std::size_t most = kMaxSentence);

// Whether Printable leaves the text unchanged, except for its length.
bool IsPrintable(std::string_view text);

// A value in a message: printable, cut, in quotation marks.
std::string Quoted(std::string_view text, std::size_t most = kMaxQuoted);

}  // namespace tutti
