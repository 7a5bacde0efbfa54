// tutti show: a schedule as text, or as a picture.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/files/files.h"
#include "tools/commands.h"
#include "tools/inspect/chosen_schedules.h"
#include "tools/inspect/schedule_drawing.h"

namespace tutti::tools {
namespace {

struct Options {
  ScheduleChoice choice;
  std::optional<int> rank = {};
  int channel = 0;
  std::string svg = {};
};

void Show(const Options& options) {
  const msccl::Program program = ChosenSchedules(options.choice);
  const auto ranks = static_cast<int>(program.ranks.size());
  if (options.rank.value_or(0) >= ranks) Throw(tuttiInvalidArgument, "there is no rank {} of {}", *options.rank, ranks);
  if (options.svg.empty()) {
    for (int r = options.rank.value_or(0); r < (options.rank ? *options.rank + 1 : ranks); ++r) {
      fmt::print("{}", schedule::ToString(program.ranks[r]));
    }
    return;
  }
  if (options.channel >= std::ssize(program.ranks.front().channels)) {
    Throw(tuttiInvalidArgument, "there is no channel {} of {}", options.channel, program.ranks.front().channels.size());
  }
  WriteFile(options.svg, DrawSchedules(program.ranks, options.channel, program.name));
}

}  // namespace

void AddShow(CLI::App& app) {
  auto* const command = app.add_subcommand("show", "print or draw a schedule");
  const auto options = std::make_shared<Options>();
  AddScheduleOptions(*command, options->choice);
  command->add_option("--rank", options->rank, "print only this rank's part (text output)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--svg", options->svg,
                      "draw into this SVG file: ranks as columns, steps downwards, slots as arrows");
  command->add_option("--channel", options->channel, "the channel to draw")->check(CLI::NonNegativeNumber);
  command->callback([options] { Show(*options); });
}

}  // namespace tutti::tools
