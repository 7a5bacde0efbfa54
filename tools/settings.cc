#include "base/settings/settings.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "tools/commands.h"
#include "tools/json.h"

namespace tutti::tools {
namespace {

// The table in docs/settings.md, which says that "0 to 16" means whole numbers.
void PrintTable() {
  fmt::print("| variable | takes | default | meaning |\n|---|---|---|---|\n");
  constexpr std::string_view kNumber = "a whole number from ";
  const auto docs = SettingDocs();
  for (std::size_t i = 0; i < docs.size(); ++i) {
    const auto standard = SettingText(Settings{}, i);
    std::string_view takes = docs[i].allowed;
    if (takes.starts_with(kNumber)) takes.remove_prefix(kNumber.size());
    fmt::print("| `{}` | {} | {} | {} |\n", docs[i].name, takes, standard.empty() ? "" : "`" + standard + "`",
               docs[i].meaning);
  }
}

nlohmann::ordered_json AllSettings() {
  auto json = nlohmann::ordered_json::array();
  const auto docs = SettingDocs();
  for (std::size_t i = 0; i < docs.size(); ++i) {
    json.push_back({{"name", docs[i].name},
                    {"takes", docs[i].allowed},
                    {"default", SettingText(Settings{}, i)},
                    {"meaning", docs[i].meaning}});
  }
  return json;
}

}  // namespace

void AddSettings(CLI::App& app) {
  auto* const command = app.add_subcommand("settings", "list every environment variable that Tutti reads");
  struct Form {
    bool markdown = false, json = false;
  };
  const auto form = std::make_shared<Form>();
  command->add_flag("--markdown", form->markdown, "print a Markdown table");
  AddJsonFlag(*command, form->json);
  command->callback([form] {
    if (form->markdown) return PrintTable();
    if (form->json) return PrintJson(AllSettings());
    for (const auto& doc : SettingDocs()) fmt::print("{:<22} {}; {}\n", doc.name, doc.meaning, doc.allowed);
  });
}

}  // namespace tutti::tools
