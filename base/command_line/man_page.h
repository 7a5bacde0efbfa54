// Man pages: the text of --help, as roff.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/command_line/outline.h"

namespace tutti::command_line {

// A page of section 1. `version`: "0.1.0". `notes`: paragraphs of plain text that follow the options.
std::string ManPage(const OutlinedCommand& command, std::string_view version, std::string_view notes = "");

}  // namespace tutti::command_line
