#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/files/files.h"
#include "base/files/json.h"
#include "tools/commands.h"
#include "tools/inspect/diagnosis.h"

namespace tutti::tools {

void AddDiagnose(CLI::App& app) {
  auto* const command = app.add_subcommand("diagnose", "what the dumps of the ranks' flight recorders say together");
  const auto files = std::make_shared<std::vector<std::string>>();
  command->add_option("files", *files, "dumps, of TUTTI_DUMP or tuttiCommDump; as many ranks' as there are")
      ->required();
  command->callback([files] {
    std::vector<Dump> dumps;
    for (const auto& file : *files) dumps.push_back(ParseDump(ReadFile(file, JsonLimits().bytes), file));
    fmt::print("{}", Diagnose(dumps));
  });
}

}  // namespace tutti::tools
