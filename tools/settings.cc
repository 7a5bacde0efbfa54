#include "base/settings.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "tools/commands.h"

namespace tutti::tools {
namespace {

// The table in docs/settings.md.
void PrintTable() {
  fmt::print("| variable | takes | default | meaning |\n|---|---|---|---|\n");
  const auto docs = SettingDocs();
  for (std::size_t i = 0; i < docs.size(); ++i) {
    const auto standard = SettingText(Settings{}, i);
    fmt::print("| `{}` | {} | {} | {} |\n", docs[i].name, docs[i].allowed, standard.empty() ? "" : "`" + standard + "`",
               docs[i].meaning);
  }
}

}  // namespace

void AddSettings(CLI::App& app) {
  auto* const command = app.add_subcommand("settings", "list every environment variable that Tutti reads");
  const auto markdown = std::make_shared<bool>(false);
  command->add_flag("--markdown", *markdown, "print a Markdown table");
  command->callback([markdown] {
    if (*markdown) return PrintTable();
    for (const auto& doc : SettingDocs()) fmt::print("{:<22} {}; {}\n", doc.name, doc.meaning, doc.allowed);
  });
}

}  // namespace tutti::tools
