#include "base/command_line/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/command_line/outline.h"
#include "base/plain_text.h"
#include "base/settings/nearest_name.h"

namespace tutti::command_line {
namespace {

bool IsOption(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

std::vector<std::string_view> OptionsOf(const OutlinedCommand& command) {
  std::vector<std::string_view> names;
  for (const auto& option : command.options) {
    if (!option.positional) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

std::string UnknownWord(const CLI::App& app, const OutlinedCommand& outline) {
  const bool no_command = app.get_subcommands().empty() && !outline.commands.empty();
  std::vector<std::string> commands;
  for (const auto& command : outline.commands) commands.push_back(command.word());
  for (const auto& word : app.remaining()) {
    const auto name = std::string_view(word).substr(0, word.find('='));
    const bool option = IsOption(name);
    if (!option && !no_command) continue;
    const auto known = option ? OptionsOf(outline) : std::vector<std::string_view>(commands.begin(), commands.end());
    return fmt::format("there is no {} {}{} (`{} --help` lists them)", option ? "option" : "command", Printable(name),
                       DidYouMean(name, known), outline.name);
  }
  for (const CLI::App* const sub : app.get_subcommands()) {
    const auto of_sub = std::ranges::find(commands, sub->get_name()) - commands.begin();
    if (auto sentence = UnknownWord(*sub, outline.commands[static_cast<std::size_t>(of_sub)]); !sentence.empty())
      return sentence;
  }
  return "";
}

}  // namespace

CLI::Validator OneOf(std::vector<std::string> words) {
  auto listed = fmt::format("{{{}}}", fmt::join(words, ","));
  return {[words = std::move(words)](const std::string& word) {
            const std::vector<std::string_view> names(words.begin(), words.end());
            return std::ranges::find(names, word) == names.end() ? UnknownName("value", word, names) : "";
          },
          std::move(listed)};
}

std::string UnknownWord(const CLI::App& app) { return UnknownWord(app, OutlineOf(app)); }

}  // namespace tutti::command_line
