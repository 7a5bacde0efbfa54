// tutti completion: the scripts by which a shell completes the command lines of tutti and tutti-bench.
#include "base/command_line/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/command_line/words.h"
#include "bench/driver/options.h"
#include "tools/commands.h"

namespace tutti::tools {

void AddCompletion(CLI::App& app) {
  auto* const command = app.add_subcommand("completion", "print a script that completes command lines in a shell");
  const auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(command_line::OneOf({"bash", "zsh", "fish"}));
  command->callback([shell, &app] {
    const auto print = [&](const command_line::OutlinedCommand& program) {
      fmt::print("{}", *shell == "bash"  ? command_line::BashCompletion(program)
                       : *shell == "zsh" ? command_line::ZshCompletion(program)
                                         : command_line::FishCompletion(program));
    };
    print(command_line::OutlineOf(app));
    print(bench::OutlineOfBench());
  });
}

}  // namespace tutti::tools
