#include "base/command_line/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tutti::command_line {
namespace {

// The name of a shell function: "tutti-bench" becomes "_tutti_bench".
std::string FunctionName(const std::string& program) {
  std::string name = "_" + program;
  std::ranges::replace(name, '-', '_');
  return name;
}

// The text with a backslash before each of these characters.
std::string Escaped(const std::string& text, std::string_view characters) {
  std::string escaped;
  for (const char c : text) {
    if (characters.find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Inside single quotes of a POSIX shell and of zsh.
std::string SingleQuoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::vector<std::string> OptionNames(const OutlinedCommand& command) {
  std::vector<std::string> names;
  for (const auto& option : command.options) {
    if (!option.positional) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

std::vector<std::string> Words(const OutlinedCommand& command) {
  std::vector<std::string> words;
  for (const auto& sub : command.commands) words.push_back(sub.word());
  return words;
}

// The cases of one command: what follows an option with words of its own, and the options.
std::string BashCases(const OutlinedCommand& command) {
  std::string text;
  for (const auto& option : command.options) {
    if (option.positional || option.words.empty()) continue;
    text += fmt::format("        {}) COMPREPLY=($(compgen -W '{}' -- \"$current\")); return ;;\n",
                        fmt::join(option.names, "|"), fmt::join(option.words, " "));
  }
  auto words = OptionNames(command);
  for (const auto& option : command.options) {
    if (option.positional) words.insert(words.end(), option.words.begin(), option.words.end());
  }
  const std::string words_of = text.empty() ? "" : fmt::format("      case $previous in\n{}      esac\n", text);
  return fmt::format("{}      options='{}'\n", words_of, fmt::join(words, " "));
}

}  // namespace

std::string BashCompletion(const OutlinedCommand& program) {
  std::string text = fmt::format(
      "# bash completion of {0}\n"
      "{1}() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command= options=\n"
      "  [ \"$COMP_CWORD\" -lt 2 ] || command=${{COMP_WORDS[1]}}\n"
      "  case $command in\n",
      program.name, FunctionName(program.name));
  for (const auto& command : program.commands) {
    text += fmt::format("    {})\n{}      ;;\n", command.word(), BashCases(command));
  }
  text += fmt::format("    *)\n{}", BashCases(program));
  if (!program.commands.empty()) text += fmt::format("      options=\"$options {}\"\n", fmt::join(Words(program), " "));
  return text + fmt::format(
                    "      ;;\n"
                    "  esac\n"
                    "  COMPREPLY=()\n"
                    "  if [[ -n $options ]]; then COMPREPLY=($(compgen -W \"$options\" -- \"$current\")); fi\n"
                    "}}\n"
                    "complete -o default -F {} {}\n",
                    FunctionName(program.name), program.name);
}

namespace {

// A line of _arguments.
std::string ZshArgument(const OutlinedOption& option) {
  const std::string about = Escaped(option.about, "[]:\\");
  const std::string values = option.words.empty() ? "_files" : fmt::format("({})", fmt::join(option.words, " "));
  if (option.positional) {
    return SingleQuoted(fmt::format("{}:{}:{}", option.takes_several ? "*" : "", option.names.front(), values));
  }
  const std::string value = option.takes_value ? ":value:" + values : "";
  if (option.names.size() == 1) return SingleQuoted(fmt::format("{}[{}]{}", option.names.front(), about, value));
  return fmt::format("{}{{{}}}{}", SingleQuoted(fmt::format("({})", fmt::join(option.names, " "))),
                     fmt::join(option.names, ","), SingleQuoted(fmt::format("[{}]{}", about, value)));
}

std::string ZshArguments(const OutlinedCommand& command, int indent) {
  std::string text = fmt::format("{:{}}_arguments -s", "", indent);
  for (const auto& option : command.options) text += fmt::format(" \\\n{:{}}{}", "", indent + 2, ZshArgument(option));
  return text;
}

}  // namespace

std::string ZshCompletion(const OutlinedCommand& program) {
  const auto name = FunctionName(program.name);
  std::string text = fmt::format("#compdef {}\n{}() {{\n", program.name, name);
  if (program.commands.empty()) return text + ZshArguments(program, 2) + "\n}\n" + name + " \"$@\"\n";
  text += "  local state line\n  local -a commands=(\n";
  for (const auto& command : program.commands) {
    text += fmt::format("    {}\n", SingleQuoted(command.word() + ":" + Escaped(command.about, ":\\")));
  }
  text += "  )\n" + ZshArguments(program, 2) + " \\\n    '1: :->command' '*:: :->arguments'\n";
  text += "  case $state in\n    command) _describe command commands ;;\n    arguments)\n      case $line[1] in\n";
  for (const auto& command : program.commands) {
    text += fmt::format("        {})\n{}\n          ;;\n", command.word(), ZshArguments(command, 10));
  }
  return text + "      esac\n      ;;\n  esac\n}\n" + name + " \"$@\"\n";
}

std::string FishCompletion(const OutlinedCommand& program) {
  const auto quoted = [](const std::string& text) { return "'" + Escaped(text, "'\\") + "'"; };
  std::string text = fmt::format("# fish completion of {}\n", program.name);
  const auto add_options = [&](const OutlinedCommand& command, const std::string& condition) {
    for (const auto& option : command.options) {
      if (option.positional) continue;
      text += fmt::format("complete -c {}{}", program.name, condition);
      for (const auto& name : option.names) {
        const bool is_long = name.starts_with("--");
        text += is_long ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (!option.words.empty()) {
        text += fmt::format(" -x -a {}", quoted(fmt::format("{}", fmt::join(option.words, " "))));
      } else if (option.takes_value) {
        text += " -r";
      }
      text += fmt::format(" -d {}\n", quoted(option.about));
    }
  };
  add_options(program, program.commands.empty() ? "" : " -n __fish_use_subcommand");
  for (const auto& command : program.commands) {
    text += fmt::format("complete -c {} -f -n __fish_use_subcommand -a {} -d {}\n", program.name, command.word(),
                        quoted(command.about));
    add_options(command, fmt::format(" -n '__fish_seen_subcommand_from {}'", command.word()));
  }
  return text;
}

}  // namespace tutti::command_line
