// Writes the man pages and completion scripts of tutti and tutti-bench into a folder, for installation.
//   tutti_pages FOLDER
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "base/command_line/completion.h"
#include "base/command_line/man_page.h"
#include "base/command_line/run.h"
#include "base/files/files.h"
#include "bench/driver/options.h"
#include "tools/application.h"

using namespace tutti;  // NOLINT: a program

namespace {

void WritePages(const std::filesystem::path& folder, const command_line::OutlinedCommand& command) {
  std::string file = command.name + ".1";
  std::ranges::replace(file, ' ', '-');
  WriteFile(folder / "man" / file, command_line::ManPage(command, command_line::Version()));
  for (const auto& sub : command.commands) WritePages(folder, sub);
}

void Write(const std::filesystem::path& folder, const command_line::OutlinedCommand& program) {
  WritePages(folder, program);
  WriteFile(folder / "bash" / program.name, command_line::BashCompletion(program));
  WriteFile(folder / "zsh" / ("_" + program.name), command_line::ZshCompletion(program));
  WriteFile(folder / "fish" / (program.name + ".fish"), command_line::FishCompletion(program));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: tutti_pages FOLDER\n");
    return command_line::kWrongUsage;
  }
  try {
    const std::filesystem::path folder = argv[1];
    for (const char* const kind : {"man", "bash", "zsh", "fish"}) std::filesystem::create_directories(folder / kind);
    int status = EXIT_SUCCESS;
    Write(folder, command_line::OutlineOf(*tools::Application(status)));
    Write(folder, bench::OutlineOfBench());
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti_pages: {}\n", error.what());
    return command_line::kFailed;
  }
}
