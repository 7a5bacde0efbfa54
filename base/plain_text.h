// Texts of others - files, peers, the environment - on their way to a person: what a terminal would obey, or what would
// read in another order than it stands, is written down instead. Long ones are cut.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

// A sentence with some names in it: longer ones are of somebody who wants to fill a screen.
inline constexpr std::size_t kMaxSentence = 4096;
// A name, or a value in a message: enough to recognise it.
inline constexpr std::size_t kMaxQuoted = 80;

// `text` in UTF-8 that can be printed: bytes that are no UTF-8, control characters (also those beyond ASCII), line
// ends, and marks that turn the direction of writing become \xNN. Beyond `most` bytes it ends in "...".
std::string Printable(std::string_view text, std::size_t most = kMaxSentence);

// Would Printable leave the text as it is, but for its length?
bool IsPrintable(std::string_view text);

// A value in a message: printable, cut, in quotation marks.
std::string Quoted(std::string_view text, std::size_t most = kMaxQuoted);

}  // namespace tutti
