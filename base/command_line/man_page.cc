#include "base/command_line/man_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tutti::command_line {
namespace {

// Plain text as roff sets it unchanged: hyphens stay hyphens, and no line begins a request.
std::string Roff(std::string_view text) {
  std::string roff;
  bool at_start = true;
  for (const char c : text) {
    if (at_start && (c == '.' || c == '\'')) roff += "\\&";
    switch (c) {
      case '\\': roff += "\\e"; break;
      case '-': roff += "\\-"; break;
      case '~': roff += "\\(ti"; break;
      case '^': roff += "\\(ha"; break;
      default: roff += c;
    }
    at_start = c == '\n';
  }
  return roff;
}

std::string Bold(std::string_view text) { return "\\fB" + Roff(text) + "\\fR"; }
std::string Italic(std::string_view text) { return "\\fI" + Roff(text) + "\\fR"; }

std::string Dashed(std::string name) {
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string ValueOf(const OutlinedOption& option) {
  if (!option.takes_value) return "";
  const auto value = option.words.empty() ? Italic("value") : Roff(fmt::format("{}", fmt::join(option.words, "|")));
  return " " + value + (option.takes_several ? " ..." : "");
}

std::string Synopsis(const OutlinedCommand& command) {
  std::string text = Bold(command.name) + " [" + Italic("options") + "]";
  if (!command.commands.empty()) text += " " + Italic("command");
  for (const auto& option : command.options) {
    if (!option.positional) continue;
    const auto value = Italic(option.names.front()) + (option.takes_several ? " ..." : "");
    text += option.required ? " " + value : " [" + value + "]";
  }
  return text;
}

std::string Entry(const OutlinedOption& option) {
  std::string names;
  for (const auto& name : option.names) {
    names += (names.empty() ? "" : ", ") + (option.positional ? Italic(name) : Bold(name));
  }
  std::string text = ".TP\n" + names + (option.positional ? "" : ValueOf(option)) + "\n" + Roff(option.about);
  if (!option.fallback.empty()) text += "\n(default: " + Roff(option.fallback) + ")";
  return text + "\n";
}

}  // namespace

std::string ManPage(const OutlinedCommand& command, std::string_view version, std::string_view notes) {
  std::string title = Dashed(command.name);
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return std::toupper(c); });
  const auto first_line = command.about.substr(0, command.about.find('\n'));
  std::string text = fmt::format(".TH {} 1 \"\" \"Tutti {}\" \"Tutti\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n", title,
                                 version, Roff(Dashed(command.name)), Roff(first_line), Synopsis(command));
  text += ".SH DESCRIPTION\n" + Roff(command.about) + "\n";
  if (!command.commands.empty()) text += ".SH COMMANDS\n";
  for (const auto& sub : command.commands) {
    text += fmt::format(".TP\n{}\n{}; see\n.BR {} (1)\n", Bold(sub.word()), Roff(sub.about), Dashed(sub.name));
  }
  text += ".SH OPTIONS\n";
  for (const auto& option : command.options) text += Entry(option);
  text +=
      ".SH EXIT STATUS\n.TP\n0\nDone.\n.TP\n1\nWhat was asked for failed; standard error has a sentence.\n"
      ".TP\n2\nThe command line is wrong.\n";
  if (!notes.empty()) text += ".SH NOTES\n" + Roff(notes) + "\n";
  const auto space = command.name.find(' ');
  if (space != std::string::npos)
    text += fmt::format(".SH SEE ALSO\n.BR {} (1)\n", Roff(command.name.substr(0, space)));
  return text;
}

}  // namespace tutti::command_line
