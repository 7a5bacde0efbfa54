#include "src/plan/selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files.h"
#include "selection/tuner/calibration.h"
#include "src/bootstrap/rank_zero.h"
#include "src/plan/planning.h"

namespace tutti {
namespace {

// Keys of what rank 0 ships: JSON, so that one reader serves files and ranks.
constexpr char kOrigin[] = "origin";
constexpr char kCosts[] = "costs";
constexpr char kTable[] = "table";
constexpr char kProgramTable[] = "program_table";

// Every rank is a process of this host, or there are several hosts like it.
Machine MachineOf(const HostCosts& costs, const Conditions& conditions, const std::optional<NetworkCosts>& network) {
  if (conditions.one_host) return HostMachine(costs, ArrangeEvenly(conditions.nranks, 1));
  return HostMachine(costs, conditions.where, network);
}

// The table of the calls that programs serve, and nothing else.
SelectionTable PriceOfPrograms(const Machine& machine, const Conditions& conditions) {
  Pricing pricing(machine, conditions);
  SelectionTable table;
  for (const Kind& kind : AllKinds()) {
    if (WhyImpossible(tuttiAlgorithmProgram, kind, conditions).empty()) table.Set(kind, pricing.MakeRow(kind));
  }
  return table;
}

}  // namespace

Selector::Selector(Conditions conditions, const Programs& programs, const Processors& processors,
                   const std::optional<NetworkCosts>& network, const Settings& settings, int rank,
                   const AllGather& all_gather)
    : conditions_(std::move(conditions)), program_conditions_(programs.Among(conditions_)), network_(network) {
  // The calibration measured one host, and additional channels for a program's connections make slots shorter.
  const bool as_calibrated = conditions_.one_host && conditions_.max_channels <= kMinChannels;
  const auto shipped = FromRankZero(rank, all_gather, [&] {
    const Calibration calibration = LoadCalibration(settings.calibration, processors.of_host);
    costs_ = calibration.costs;
    if (!settings.table.empty()) {
      table_ = SelectionTable::FromJson(ReadFile(settings.table, kMaxTableFile), settings.table, conditions_);
      origin_ = settings.table;
    } else if (as_calibrated && calibration.TableFor(conditions_, table_)) {
      origin_ = calibration.name;
    }
    const Machine machine = MachineOf(costs_, conditions_, network_);
    // The others wait for the table, so their cores are free. Pricing for a few ranks is not worth a thread.
    constexpr int kWorthThreads = 32;
    Pricing(machine, conditions_).Complete(table_, conditions_.nranks >= kWorthThreads ? processors.of_host : 1);
    program_table_ = PriceOfPrograms(machine, program_conditions_);
    return nlohmann::json{{kOrigin, origin_},
                          {kCosts, ToJson(costs_)},
                          {kTable, table_.ToJson(conditions_)},
                          {kProgramTable, program_table_.ToJson(program_conditions_)}};
  });
  const auto root = shipped.root();
  origin_ = root.Text(kOrigin);
  costs_ = HostCostsFromJson(root.RawText(kCosts), "rank 0's machine");
  table_ = SelectionTable::FromJson(root.RawText(kTable), "rank 0's selection table", conditions_);
  program_table_ =
      SelectionTable::FromJson(root.RawText(kProgramTable), "rank 0's table of programs", program_conditions_);
}

Choice Selector::Choose(const Kind& kind, std::size_t bytes) const {
  const TableEntry& entry = table_.At(kind, bytes);
  const auto forced = conditions_.forced.algorithm[static_cast<std::size_t>(kind.collective)];
  std::string reason = fmt::format("predicted {:.1f} us at {} B", entry.us, std::max<std::size_t>(1, entry.from_bytes));
  if (!origin_.empty()) reason = fmt::format("from {}", origin_);
  if (forced) {
    const auto why_not = WhyImpossible(*forced, kind, conditions_);
    reason = why_not.empty() ? "forced" : fmt::format("{} is forced, but {}", NameOf(*forced), why_not);
  }
  return {entry.candidate, std::move(reason)};
}

Choice Selector::Choose(const ServingProgram& serving, const Kind& kind, std::size_t bytes) const {
  return {program_table_.At(kind, bytes).candidate, fmt::format("{} from {}", serving.program.name, serving.path)};
}

std::string Selector::Explain(const Kind& kind, std::size_t bytes, bool by_program) const {
  const Machine machine = MachineOf(costs_, conditions_, network_);
  Pricing pricing(machine, by_program ? program_conditions_ : conditions_);
  return tutti::Explain(pricing, kind, bytes, (by_program ? program_table_ : table_).At(kind, bytes).candidate);
}

}  // namespace tutti
