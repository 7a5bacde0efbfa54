// Runs a program's command line: --version, messages and exit statuses are the same for all of Tutti's programs.
//
// Thread-safety: one thread.
#pragma once

#include <exception>
#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace tutti::command_line {

// Exit statuses. `tutti run` has those of its ranks, too.
inline constexpr int kFailed = 1;      // what was asked for failed; stderr has a sentence
inline constexpr int kWrongUsage = 2;  // the command line is wrong

// "0.1.0".
std::string Version();
void AddVersion(CLI::App& app);

// Prints what an error says, or the help or the version that CLI11 throws; returns the exit status.
int Report(const CLI::App& app, const std::exception& error);

// Parses, which runs the subcommands' callbacks. Returns the exit status.
int Run(CLI::App& app, int argc, char** argv);

}  // namespace tutti::command_line
