// Completion of command lines in bash, zsh and fish.
//
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "base/command_line/outline.h"

namespace tutti::command_line {

// Scripts that complete the program's commands, options, the words that an option takes, and else files.
std::string BashCompletion(const OutlinedCommand& program);
std::string ZshCompletion(const OutlinedCommand& program);
std::string FishCompletion(const OutlinedCommand& program);

}  // namespace tutti::command_line
