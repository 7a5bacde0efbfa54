// tutti predict: the cost model's times, to be compared with what a machine measures; and those of a message between GPUs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>

#include "algorithms/builders/records.h"
#include "base/error.h"
#include "base/report/progress.h"
#include "base/report/sizes.h"
#include "selection/tuner/tuner.h"
#include "tools/commands.h"
#include "tools/json.h"
#include "tools/simulator/messages.h"
#include "tools/simulator/target.h"

namespace tutti::tools {
namespace {

struct PredictOptions {
  TargetOptions target;
  std::string begin = "8";
  std::string end = "1G";
  int factor = 8;
  bool json = false;
};

// Sizes are a whole buffer's, as in tutti-bench: of all blocks where the collective has blocks of ranks.
void Predict(const PredictOptions& options) {
  report::Progress progress(schedule::kScheduledCollectives);
  progress.Step(0, "describing the machine");
  const Target target = TargetOf(options.target, true);
  const cost_model::TuningContext tuning = ConditionsOf(target);
  tuner::Tuner tuner(target.machine, tuning);
  auto json = nlohmann::ordered_json::array();
  if (!options.json) fmt::print("collective,ranks,bytes,us,algorithm,channels,protocol,chunk\n");
  for (int c = 0; c < schedule::kScheduledCollectives; ++c) {
    const cost_model::Kind kind{static_cast<schedule::Collective>(c)};
    progress.Step(c, cost_model::ToString(kind));
    tuner::SelectionTable table;
    table.Set(kind, tuner.MakeRow(kind));
    progress.Clear();
    const std::size_t end = report::ParseSize(options.end);
    for (std::size_t bytes = report::ParseSize(options.begin); bytes <= end;
         bytes *= static_cast<std::size_t>(options.factor)) {
      const auto parts = schedule::HasBlocksOfRanks(kind.collective) ? static_cast<std::size_t>(tuning.nranks) : 1;
      const std::size_t block = std::max<std::size_t>(1, bytes / parts);
      const auto& candidate = table.At(kind, block).candidate;
      const double us = tuner.Microseconds(candidate, kind, block);
      if (options.json) {
        json.push_back({{"collective", cost_model::ToString(kind)},
                        {"ranks", tuning.nranks},
                        {"bytes", bytes},
                        {"us", us},
                        {"candidate", JsonOf(candidate)}});
        continue;
      }
      fmt::print("{},{},{},{:.2f},{},{},{},{}\n", cost_model::ToString(kind), tuning.nranks, bytes, us,
                 builders::NameOf(candidate.algorithm), candidate.channels, ring::NameOf(candidate.config.protocol),
                 candidate.config.chunk_bytes);
    }
  }
  if (target.gpus && tuning.nranks / std::max(1, tuning.where.nodes()) > 1) {
    const Messages messages(target);
    const std::size_t end = report::ParseSize(options.end);
    for (std::size_t bytes = report::ParseSize(options.begin); bytes <= end;
         bytes *= static_cast<std::size_t>(options.factor)) {
      const auto way = messages.WayOf(bytes);
      const double us = messages.Predicted(way, bytes);
      if (options.json) {
        json.push_back({{"collective", kMessage},
                        {"ranks", 2},
                        {"bytes", bytes},
                        {"us", us},
                        {"candidate", JsonOf(cost_model::Candidate{tuttiAlgorithmNone, way.channels, way.config})}});
        continue;
      }
      fmt::print("{},2,{},{:.2f},none,{},{},{}\n", kMessage, bytes, us, way.channels, ring::NameOf(way.config.protocol),
                 way.config.chunk_bytes);
    }
  }
  if (options.json) PrintJson(json);
}

}  // namespace

void AddPredict(CLI::App& app) {
  auto* const command =
      app.add_subcommand("predict", "print the predicted times of all collectives over sizes, as CSV or JSON");
  const auto options = std::make_shared<PredictOptions>();
  AddTargetOptions(*command, options->target);
  command->add_option("-b,--minbytes", options->begin, "first size, of a whole buffer")->capture_default_str();
  command->add_option("-e,--maxbytes", options->end, "last size")->capture_default_str();
  command->add_option("-f,--stepfactor", options->factor, "factor from size to size")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  AddJsonFlag(*command, options->json);
  command->callback([options] { Predict(*options); });
}

}  // namespace tutti::tools
