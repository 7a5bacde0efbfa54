// tutti explain: shows why a plan is chosen.
#include "selection/tuner/explain.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "algorithms/builders/records.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/files/json.h"
#include "base/report/progress.h"
#include "base/report/sizes.h"
#include "selection/tuner/calibration.h"
#include "tools/commands.h"
#include "tools/json.h"
#include "tools/simulator/messages.h"
#include "tools/simulator/target.h"
#include "tools/tuning/explain_plot.h"

namespace tutti::tools {
namespace {

struct ExplainOptions {
  std::string collective;  // empty: all_reduce, or all
  std::string size;
  TargetOptions target;
  std::string algorithm;
  bool low_precision = false;
  bool deterministic = false;
  bool json = false;
  std::string plot;
};

std::string Describe(const TargetOptions& options, int nranks, const std::string& calibration) {
  const auto constants = calibration.empty() ? "default constants" : "constants of " + calibration;
  if (!options.one_gpu.empty()) return fmt::format("{} ranks, threads that share one {}", nranks, options.one_gpu);
  if (!options.host.empty()) return fmt::format("{} ranks on \"{}\"; {}", nranks, options.host, constants);
  if (options.topology.empty()) {
    const auto hosts = options.nodes == 1
                           ? std::string()
                           : fmt::format(" {} {} hosts at {:g} Mbit/s", options.one_machine ? "of" : "of each of",
                                         options.nodes, options.network);
    return fmt::format("{} ranks on {} cores{}; {}", nranks, options.cores, hosts, constants);
  }
  return fmt::format("{} ranks on {} node{} of {}", nranks, options.nodes, options.nodes == 1 ? "" : "s",
                     options.topology);
}

// The winner first, then every algorithm by its best way to move the data, or why it cannot serve.
nlohmann::ordered_json Explained(tuner::Tuner& tuner, const cost_model::Kind& kind, std::size_t bytes,
                                 const cost_model::Candidate& chosen, bool measured) {
  nlohmann::ordered_json json = {{"collective", cost_model::ToString(kind)},
                                 {"ranks", tuner.tuning().nranks},
                                 {"bytes", bytes},
                                 {"table", measured ? "measured" : "predicted"},
                                 {"chosen", JsonOf(chosen)},
                                 {"us", tuner.Microseconds(chosen, kind, bytes)},
                                 {"candidates", nlohmann::ordered_json::array()}};
  for (const auto& each : tuner.Compare(kind, bytes)) {
    json["candidates"].push_back(
        each.why_not.empty()
            ? nlohmann::ordered_json{{"us", each.us}, {"candidate", JsonOf(each.candidate)}}
            : nlohmann::ordered_json{{"algorithm", builders::NameOf(each.algorithm)}, {"why_not", each.why_not}});
  }
  return json;
}

void ExplainOne(const ExplainOptions& options) {
  report::Progress progress(1);
  progress.Step("pricing every candidate");
  const Target target = TargetOf(options.target, true);
  if (options.collective == kMessage) {
    const Messages messages(target);
    progress.Clear();
    fmt::print("{}, {}\n{}", kMessage, Describe(options.target, target.machine.nranks(), ""),
               options.size.empty() ? messages.Explain() : messages.Explain(report::ParseSize(options.size)));
    return;
  }
  cost_model::TuningContext tuning = ConditionsOf(target);
  tuning.deterministic = options.deterministic;
  cost_model::ParseForcedAlgorithms(options.algorithm, tuning.nranks, tuning.forced);
  tuner::Tuner tuner(target.machine, tuning);
  tuner::SelectionTable table;
  tuner::Calibration calibration;
  if (!target.gpus) calibration = tuner::LoadCalibration(options.target.calibration, options.target.cores);
  const bool measured =
      options.target.host.empty() && !target.gpus && tuning.one_host && calibration.TableFor(tuning, table);
  const auto complete = [&](const cost_model::Kind& kind) {
    if (!table.Has(kind)) table.Set(kind, tuner.MakeRow(kind));
  };
  const schedule::Collective collective =
      cost_model::ParseCollective(options.collective.empty() ? "all_reduce" : options.collective);
  const cost_model::Kind kind{collective, options.low_precision && schedule::IsReducing(collective)};
  if (!options.plot.empty()) {
    complete(kind);
    const auto heading =
        fmt::format("{}, {}", cost_model::ToString(kind), Describe(options.target, tuning.nranks, calibration.name));
    WriteFile(options.plot, DrawPrices(tuner, table, kind, heading));
    if (options.size.empty()) return;
  }
  if (options.size.empty() && !options.collective.empty() && !options.json) {
    complete(kind);
    progress.Clear();
    fmt::print("{}, {}{}\n", cost_model::ToString(kind), Describe(options.target, tuning.nranks, calibration.name),
               measured ? ", table measured" : "");
    for (const auto& entry : table.Row(kind)) {
      fmt::print("  {:>12} B and more: {}\n", entry.from_bytes, tuner::ToString(entry.candidate));
    }
    return;
  }
  if (options.size.empty()) {
    tuner.Complete(table, options.target.cores);
    progress.Clear();
    fmt::print("{}", table.ToJson(tuning));
    return;
  }
  const std::size_t bytes = report::ParseSize(options.size);
  complete(kind);
  const auto& chosen = table.At(kind, bytes).candidate;
  const auto explained = options.json ? JsonText(Explained(tuner, kind, bytes, chosen, measured))
                                      : tuner::Explain(tuner, kind, bytes, chosen);
  progress.Clear();
  if (!options.json) {
    fmt::print("{}, {} B, {}{}\n", cost_model::ToString(kind), bytes,
               Describe(options.target, tuning.nranks, calibration.name), measured ? ", table measured" : "");
  }
  fmt::print("{}", explained);
}

}  // namespace

void AddExplain(CLI::App& app) {
  auto* const command =
      app.add_subcommand("explain", "list every candidate for a call with its predicted time, and explain the choice");
  const auto options = std::make_shared<ExplainOptions>();
  command->add_option("COLLECTIVE", options->collective,
                      "all_reduce, reduce_scatter, all_gather, ...; send: a message from GPU 0 to GPU 1");
  command->add_option(
      "SIZE", options->size,
      "size: 8, 64K, 1M; if omitted, list what is chosen from which size on; if both are, print the table of all "
      "collectives as JSON, for TUTTI_TABLE");
  AddTargetOptions(*command, options->target);
  command->add_option("--algo", options->algorithm, "algorithms to force, like TUTTI_ALGO");
  command->add_flag("--low-precision", options->low_precision, "a low-precision type, whose partial sums are rounded");
  command->add_flag("--deterministic", options->deterministic, "deterministic mode, like TUTTI_DETERMINISTIC");
  command->add_option("--plot", options->plot, "draw every algorithm's predicted time over the size (SVG)");
  AddJsonFlag(*command, options->json);
  command->callback([options] { ExplainOne(*options); });
}

}  // namespace tutti::tools
