// tutti: shows users what the library knows: the machine, the schedules, and why it chooses one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>

#include "base/plain_text.h"
#include "tools/commands.h"

int main(int argc, char** argv) {
  CLI::App app("Inspects, simulates and tunes Tutti's machines and schedules");
  app.require_subcommand(1);
  tutti::tools::AddCalibrate(app);
  tutti::tools::AddDiagnose(app);
  tutti::tools::AddExplain(app);
  tutti::tools::AddJudge(app);
  tutti::tools::AddPlan(app);
  tutti::tools::AddPredict(app);
  tutti::tools::AddSettings(app);
  tutti::tools::AddShow(app);
  tutti::tools::AddSimulate(app);
  tutti::tools::AddTopo(app);
  tutti::tools::AddVerify(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti: {}\n", tutti::Printable(error.what()));
    return EXIT_FAILURE;
  }
}
