#include "base/settings.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "tools/commands.h"

namespace tutti::tools {

void AddSettings(CLI::App& app) {
  app.add_subcommand("settings", "every environment variable that Tutti reads")->callback([] {
    for (const auto& doc : SettingDocs()) fmt::print("{:<22} {}; {}\n", doc.name, doc.meaning, doc.allowed);
  });
}

}  // namespace tutti::tools
