// tutti explain: why a plan is chosen.
#include "algorithms/explain.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <thread>

#include "algorithms/calibration.h"
#include "base/error.h"
#include "report/sizes.h"
#include "tools/candidate_timer.h"
#include "tools/commands.h"

namespace tutti::tools {
namespace {

struct ExplainOptions {
  std::string collective = "all_reduce";
  std::string size;
  int ranks = 2;
  std::string algorithm;
  std::string calibration;
  std::string table;
  bool low_precision = false;
  bool deterministic = false;
};

void ExplainOne(const ExplainOptions& options) {
  Conditions conditions = HostConditions(options.ranks);
  conditions.deterministic = options.deterministic;
  ParseForcedAlgorithms(options.algorithm, options.ranks, conditions.forced);
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const Calibration calibration = LoadCalibration(options.calibration, cores);
  const Machine machine = HostMachine(calibration.costs, ArrangeEvenly(options.ranks, 1));
  Pricing pricing(machine, conditions);
  SelectionTable table;
  const bool measured = calibration.TableFor(conditions, table);
  pricing.Complete(table);
  if (options.size.empty()) {
    fmt::print("{}", table.ToJson(conditions));
    return;
  }
  const Collective collective = ParseCollective(options.collective);
  const Kind kind{collective, options.low_precision && IsReducing(collective)};
  const std::size_t bytes = ParseSize(options.size);
  fmt::print("{}, {} B, {} ranks on {} cores; {}{}\n", ToString(kind), bytes, options.ranks, cores,
             calibration.name.empty() ? "default constants" : "constants of " + calibration.name,
             measured ? ", table measured" : "");
  fmt::print("{}", Explain(pricing, kind, bytes, table.At(kind, bytes).candidate));
}

}  // namespace

void AddExplain(CLI::App& app) {
  auto* const command =
      app.add_subcommand("explain", "every candidate for a call with its predicted time, and why one wins");
  const auto options = std::make_shared<ExplainOptions>();
  command->add_option("collective", options->collective, "all_reduce, reduce_scatter, ...");
  command->add_option("size", options->size, "8, 64K, 1M; left out: print the whole table as JSON, for TUTTI_TABLE");
  command->add_option("--ranks", options->ranks, "how many")->check(CLI::Range(1, 30'000))->capture_default_str();
  command->add_option("--algo", options->algorithm, "force, as TUTTI_ALGO does");
  command->add_option("--calibration", options->calibration,
                      "file of tutti calibrate; none: defaults; empty: the usual place");
  command->add_flag("--low-precision", options->low_precision, "a type that is rounded when it travels");
  command->add_flag("--deterministic", options->deterministic, "as TUTTI_DETERMINISTIC");
  command->callback([options] { ExplainOne(*options); });
}

}  // namespace tutti::tools
