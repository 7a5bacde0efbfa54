// tutti: starts ranks, and shows users what the library knows: the machine, the schedules, and why it chooses one.
#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/command_line/run.h"
#include "tools/application.h"

int main(int argc, char** argv) {
  int status = EXIT_SUCCESS;
  const auto app = tutti::tools::Application(status);
  const int parsed = tutti::command_line::Run(*app, argc, argv);
  return parsed != EXIT_SUCCESS ? parsed : status;
}
