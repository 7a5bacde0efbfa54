// tutti show: a schedule as text, or as a picture.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "algorithms/builders/records.h"
#include "base/files/files.h"
#include "base/usage_error.h"
#include "tools/commands.h"
#include "tools/inspect/chosen_schedules.h"
#include "tools/inspect/schedule_drawing.h"
#include "tools/json.h"

namespace tutti::tools {
namespace {

struct ShowOptions {
  ScheduleChoice choice;
  std::optional<int> rank = {};
  int channel = 0;
  std::string svg = {};
  bool json = false;
};

nlohmann::ordered_json JsonOf(const schedule::Schedule& schedule) {
  auto channels = nlohmann::ordered_json::array();
  for (const auto& channel : schedule.channels) {
    auto lanes = nlohmann::ordered_json::array();
    for (const auto& lane : channel.lanes) {
      auto steps = nlohmann::ordered_json::array();
      for (const auto& step : lane.steps) steps.push_back(schedule::ToString(step));
      lanes.push_back(std::move(steps));
    }
    channels.push_back(std::move(lanes));
  }
  return {{"rank", schedule.rank}, {"channels", std::move(channels)}};
}

void Show(const ShowOptions& options) {
  const msccl::Program program = ChosenSchedules(options.choice);
  const auto ranks = static_cast<int>(program.ranks.size());
  if (options.rank.value_or(0) >= ranks) ThrowUsage("there is no rank {} of {}", *options.rank, ranks);
  if (options.svg.empty()) {
    nlohmann::ordered_json json = {{"collective", schedule::NameOf(program.ranks.front().collective)},
                                   {"by", program.name},
                                   {"ranks", nlohmann::ordered_json::array()}};
    for (int r = options.rank.value_or(0); r < (options.rank ? *options.rank + 1 : ranks); ++r) {
      if (options.json) {
        json["ranks"].push_back(JsonOf(program.ranks[r]));
      } else {
        fmt::print("{}", schedule::ToString(program.ranks[r], builders::NameOf(program.ranks[r].algorithm)));
      }
    }
    if (options.json) PrintJson(json);
    return;
  }
  if (options.channel >= std::ssize(program.ranks.front().channels)) {
    ThrowUsage("there is no channel {} of {}", options.channel, program.ranks.front().channels.size());
  }
  WriteFile(options.svg, DrawSchedules(program.ranks, options.channel, program.name));
}

}  // namespace

void AddShow(CLI::App& app) {
  auto* const command = app.add_subcommand("show", "print or draw a schedule");
  const auto options = std::make_shared<ShowOptions>();
  AddScheduleOptions(*command, options->choice);
  command->add_option("--rank", options->rank, "print only this rank's part (text output)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--svg", options->svg,
                      "draw into this SVG file: ranks as columns, steps downwards, slots as arrows");
  command->add_option("--channel", options->channel, "the channel to draw")->check(CLI::NonNegativeNumber);
  AddJsonFlag(*command, options->json);
  command->callback([options] { Show(*options); });
}

}  // namespace tutti::tools
