#include "tools/application.h"

#include <CLI/CLI.hpp>

#include "base/command_line/run.h"
#include "tools/commands.h"

namespace tutti::tools {

std::unique_ptr<CLI::App> Application(int& status) {
  auto app = std::make_unique<CLI::App>(
      "Runs programs on several ranks; inspects, simulates and tunes machines and schedules", "tutti");
  command_line::AddVersion(*app);
  app->require_subcommand(1);
  AddCalibrate(*app);
  AddCompletion(*app);
  AddDiagnose(*app);
  AddExplain(*app);
  AddJudge(*app);
  AddPlan(*app);
  AddPredict(*app);
  AddRun(*app, status);
  AddSettings(*app);
  AddShow(*app);
  AddSimulate(*app);
  AddTopo(*app);
  AddVerify(*app);
  return app;
}

}  // namespace tutti::tools
