// tutti judge: compares the selector with exhaustive measurement.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/report/sizes.h"
#include "base/usage_error.h"
#include "bench/report/statistics.h"
#include "selection/tuner/calibration.h"
#include "selection/tuner/explain.h"
#include "tools/commands.h"
#include "tools/json.h"
#include "tools/tuning/candidate_timer.h"

namespace tutti::tools {
namespace {

struct JudgeOptions {
  std::vector<int> ranks = {2, 4, 8};
  int hosts = 1;
  std::vector<std::string> sizes = {"8", "1K", "64K", "1M", "16M", "128M"};
  int repetitions = 20;  // a shared machine's speed varies, and all candidates need their share of each phase
  double loop_ms = 20;   // several scheduler ticks
  std::string calibration;
  bool all = false;
  bool json = false;
};

int Cores() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

// The table that a communicator under these conditions would have.
tuner::SelectionTable TableFor(const cost_model::TuningContext& tuning, const tuner::Calibration& calibration,
                               const cost_model::Machine& machine) {
  tuner::SelectionTable table;
  if (tuning.one_host) calibration.TableFor(tuning, table);
  tuner::Tuner(machine, tuning).Complete(table);
  return table;
}

// The index of the chosen candidate in the list; appends it if it is missing.
std::size_t FindOrAdd(std::vector<cost_model::Candidate>& candidates, const cost_model::Candidate& chosen) {
  const auto found = std::find(candidates.begin(), candidates.end(), chosen);
  const auto index = static_cast<std::size_t>(found - candidates.begin());
  if (found == candidates.end()) candidates.push_back(chosen);
  return index;
}

void Judge(const JudgeOptions& options) {
  std::vector<std::size_t> sizes;
  for (const auto& size : options.sizes) sizes.push_back(report::ParseSize(size));
  std::vector<double> ratios, errors;
  auto json = nlohmann::ordered_json::array();
  std::FILE* const table = options.json ? stderr : stdout;
  fmt::print(table, "| collective | ranks | size | chosen | us | predicted us | best | us | chosen / best |\n");
  fmt::print(table, "|---|--:|--:|---|--:|--:|---|--:|--:|\n");
  for (const int nranks : options.ranks) {
    if (nranks % options.hosts != 0) {
      ThrowUsage("{} ranks are not the same number on each of {} hosts", nranks, options.hosts);
    }
    const cost_model::TuningContext tuning = HostConditions(nranks, options.hosts);
    const TimingOptions timing{nranks, options.hosts, options.repetitions, options.loop_ms};
    const auto processors = cost_model::ShareProcessors(Cores(), options.hosts, nranks, nranks / options.hosts);
    const auto calibration = tuner::LoadCalibration(options.calibration, processors.of_host);
    const auto network = options.hosts > 1 ? MeasuredNetwork(timing) : std::nullopt;
    const cost_model::Machine machine = cost_model::HostMachine(calibration.costs, tuning.where, network);
    const tuner::SelectionTable selection = TableFor(tuning, calibration, machine);
    tuner::Tuner tuner(machine, tuning);
    auto cells = EveryCandidate(tuning, sizes);
    std::vector<std::size_t> chosen;
    for (auto& cell : cells)
      chosen.push_back(FindOrAdd(cell.candidates, selection.At(cell.kind, cell.bytes).candidate));
    TimeCandidates(cells, timing);
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const auto& [kind, bytes, candidates, us] = cells[c];
      const auto best = static_cast<std::size_t>(std::min_element(us.begin(), us.end()) - us.begin());
      const double predicted = tuner.Microseconds(candidates[chosen[c]], kind, bytes);
      ratios.push_back(us[chosen[c]] / us[best]);
      errors.push_back(std::abs(predicted / us[chosen[c]] - 1));
      fmt::print(table, "| {} | {} | {} | {} | {:.1f} | {:.1f} | {} | {:.1f} | {:.2f} |\n",
                 schedule::NameOf(kind.collective), nranks, report::FormatSize(sizes[c % sizes.size()]),
                 tuner::ToString(candidates[chosen[c]]), us[chosen[c]], predicted, tuner::ToString(candidates[best]),
                 us[best], ratios.back());
      if (options.json) {
        json.push_back({{"collective", schedule::NameOf(kind.collective)},
                        {"ranks", nranks},
                        {"bytes", sizes[c % sizes.size()]},
                        {"chosen", JsonOf(candidates[chosen[c]])},
                        {"us", us[chosen[c]]},
                        {"predicted_us", predicted},
                        {"best", JsonOf(candidates[best])},
                        {"best_us", us[best]}});
      }
      for (std::size_t i = 0; options.all && i < candidates.size(); ++i) {
        fmt::print(table, "    {:>10.1f} us, predicted {:>10.1f}: {}\n", us[i],
                   tuner.Microseconds(candidates[i], kind, bytes), tuner::ToString(candidates[i]));
      }
    }
  }
  fmt::print(
      table,
      "\n{} cells: the chosen candidate takes {:.3f} of the best one's time in geometric mean, {:.2f} at most; its "
      "predicted time is wrong by {:.0f} % (median)\n",
      ratios.size(), bench::GeometricMean(ratios), *std::max_element(ratios.begin(), ratios.end()),
      100 * bench::Median(errors));
  if (options.json) PrintJson(json);
}

}  // namespace

void AddJudge(CLI::App& app) {
  auto* const command =
      app.add_subcommand("judge", "time every candidate on this machine, and rate the selector's choices");
  const auto options = std::make_shared<JudgeOptions>();
  command->add_option("--ranks", options->ranks, "numbers of ranks")->delimiter(',')->capture_default_str();
  command
      ->add_option("--hosts", options->hosts,
                   "number of hosts, each with an even share of the ranks: TCP over loopback joins them")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--sizes", options->sizes, "bytes of a rank's larger buffer: 8, 64K, 1M")->delimiter(',');
  command
      ->add_option("--repetitions", options->repetitions,
                   "number of interleaved repetitions; their interquartile mean is used")
      ->capture_default_str();
  command->add_option("--loop-ms", options->loop_ms, "length of one timed loop")->capture_default_str();
  command->add_option("--calibration", options->calibration,
                      "file written by tutti calibrate; none: built-in defaults; empty: the default location");
  command->add_flag("--all", options->all, "print every candidate");
  AddJsonFlag(*command, options->json);
  command->callback([options] { Judge(*options); });
}

}  // namespace tutti::tools
