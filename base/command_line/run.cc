#include "base/command_line/run.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/command_line/words.h"
#include "base/plain_text.h"
#include "base/usage_error.h"

namespace tutti::command_line {

std::string Version() { return TUTTI_PROGRAM_VERSION; }

void AddVersion(CLI::App& app) {
  app.set_version_flag("--version", fmt::format("{} {}", app.get_name(), Version()), "Print the version and exit");
}

namespace {

int ReportParse(const CLI::App& app, const CLI::ParseError& error) {
  // Before what else is wrong: a word that is unknown may be read as another argument.
  const auto unknown = error.get_exit_code() == EXIT_SUCCESS ? "" : UnknownWord(app);
  if (!unknown.empty()) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), unknown);
    return kWrongUsage;
  }
  return app.exit(error) == EXIT_SUCCESS ? EXIT_SUCCESS : kWrongUsage;
}

}  // namespace

int Report(const CLI::App& app, const std::exception& error) {
  if (const auto* const of_parser = dynamic_cast<const CLI::ParseError*>(&error)) return ReportParse(app, *of_parser);
  fmt::print(stderr, "{}: {}\n", app.get_name(), Printable(error.what()));
  return dynamic_cast<const UsageError*>(&error) != nullptr ? kWrongUsage : kFailed;
}

int Run(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    return Report(app, error);
  }
}

}  // namespace tutti::command_line
