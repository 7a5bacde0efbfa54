#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <sstream>

#include "base/files/files.h"
#include "base/files/json.h"
#include "tools/commands.h"
#include "tools/inspect/diagnosis.h"
#include "tools/json.h"

namespace tutti::tools {
namespace {

nlohmann::ordered_json JsonOf(const Dump& dump) {
  nlohmann::ordered_json json = {{"communicator", dump.communicator},
                                 {"name", dump.name},
                                 {"rank", dump.rank},
                                 {"failure", dump.failure},
                                 {"unfinished", nlohmann::ordered_json::array()}};
  if (dump.waits_for >= 0) json["waits_for"] = dump.waits_for;
  for (const auto& operation : dump.operations) {
    if (operation.done) continue;
    nlohmann::ordered_json unfinished = {
        {"call", operation.call}, {"kind", operation.kind}, {"sequence", operation.sequence}};
    if (!operation.site.empty()) unfinished["site"] = operation.site;
    if (operation.peer >= 0) unfinished["peer"] = operation.peer;
    json["unfinished"].push_back(std::move(unfinished));
  }
  return json;
}

// The dumps, and what the text says of them, by line.
nlohmann::ordered_json JsonOf(const std::vector<Dump>& dumps, const std::string& text) {
  nlohmann::ordered_json json;
  for (const auto& dump : dumps) json["dumps"].push_back(JsonOf(dump));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) json["diagnosis"].push_back(line);
  return json;
}

}  // namespace

void AddDiagnose(CLI::App& app) {
  auto* const command =
      app.add_subcommand("diagnose", "combine the dumps of the ranks' flight recorders and report why they hang");
  struct DiagnoseOptions {
    std::vector<std::string> files;
    bool json = false;
  };
  const auto options = std::make_shared<DiagnoseOptions>();
  command
      ->add_option("files", options->files, "dump files of TUTTI_DUMP or tuttiCommDump, from as many ranks as possible")
      ->required();
  AddJsonFlag(*command, options->json);
  command->callback([options] {
    std::vector<Dump> dumps;
    for (const auto& file : options->files) dumps.push_back(ParseDump(ReadFile(file, JsonLimits().bytes), file));
    const auto text = Diagnose(dumps);
    if (options->json) return PrintJson(JsonOf(dumps, text));
    fmt::print("{}", text);
  });
}

}  // namespace tutti::tools
