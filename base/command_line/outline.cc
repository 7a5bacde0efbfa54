#include "base/command_line/outline.h"

#include <CLI/CLI.hpp>

namespace tutti::command_line {
namespace {

// "TEXT:{out,in,both}" lists the words that an option takes.
std::vector<std::string> WordsIn(const std::string& type) {
  const auto open = type.find('{'), close = type.find('}');
  std::vector<std::string> words;
  if (open == std::string::npos || close == std::string::npos) return words;
  for (auto at = open + 1; at < close;) {
    const auto end = std::min(type.find(',', at), close);
    words.push_back(type.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

OutlinedOption OutlineOf(const CLI::Option& option, bool positional) {
  OutlinedOption outlined;
  outlined.positional = positional;
  if (positional) {
    outlined.names.push_back(option.get_name(true));
  } else {
    for (const auto& name : option.get_snames()) outlined.names.push_back("-" + name);
    for (const auto& name : option.get_lnames()) outlined.names.push_back("--" + name);
  }
  outlined.required = option.get_required();
  outlined.takes_value = option.get_items_expected_max() > 0;
  outlined.takes_several = option.get_items_expected_max() > 1;
  outlined.words = WordsIn(option.get_type_name());
  outlined.fallback = option.get_default_str();
  outlined.about = option.get_description();
  return outlined;
}

OutlinedCommand OutlineOf(const CLI::App& app, const std::string& name) {
  OutlinedCommand command{name, app.get_description(), {}};
  for (const CLI::Option* const option : app.get_options()) {
    if (option->get_positional()) command.options.push_back(OutlineOf(*option, true));
    if (option->nonpositional()) command.options.push_back(OutlineOf(*option, false));
  }
  for (const CLI::App* const sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    command.commands.push_back(OutlineOf(*sub, name + " " + sub->get_name()));
  }
  return command;
}

}  // namespace

OutlinedCommand OutlineOf(const CLI::App& app) { return OutlineOf(app, app.get_name()); }

}  // namespace tutti::command_line
