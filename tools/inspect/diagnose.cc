#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/files/files.h"
#include "base/files/json.h"
#include "tools/commands.h"
#include "tools/inspect/diagnosis.h"

namespace tutti::tools {

void AddDiagnose(CLI::App& app) {
  auto* const command =
      app.add_subcommand("diagnose", "combine the dumps of the ranks' flight recorders and report why they hang");
  const auto files = std::make_shared<std::vector<std::string>>();
  command->add_option("files", *files, "dump files of TUTTI_DUMP or tuttiCommDump, from as many ranks as possible")
      ->required();
  command->callback([files] {
    std::vector<Dump> dumps;
    for (const auto& file : *files) dumps.push_back(ParseDump(ReadFile(file, JsonLimits().bytes), file));
    fmt::print("{}", Diagnose(dumps));
  });
}

}  // namespace tutti::tools
