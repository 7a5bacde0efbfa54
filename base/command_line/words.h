// Words of a command line that have to be known: commands, options, and the values of some options.
//
// Thread-safety: pure functions.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tutti::command_line {

// An option takes one of these. Help, completion and man pages list them.
CLI::Validator OneOf(std::vector<std::string> words);

// A sentence about the first option or command that does not exist, with the nearest that does; empty if there is none.
// REQUIRES: a parse of `app` has ended, perhaps by an error.
std::string UnknownWord(const CLI::App& app);

}  // namespace tutti::command_line
