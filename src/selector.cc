#include "src/selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "algorithms/calibration.h"
#include "base/error.h"

namespace tutti {
namespace {

// What rank 0 ships: JSON, so that one reader serves files and ranks.
constexpr char kError[] = "error";
constexpr char kOrigin[] = "origin";
constexpr char kCosts[] = "costs";
constexpr char kTable[] = "table";

// Every rank is a process of this host.
Machine MachineOf(const HostCosts& costs, int nranks) { return HostMachine(costs, ArrangeEvenly(nranks, 1)); }

}  // namespace

Selector::Selector(Conditions conditions, int cores, const Settings& settings, int rank, const AllGather& all_gather)
    : conditions_(std::move(conditions)) {
  std::string mine;
  if (rank == 0) {
    nlohmann::json shipped;
    try {
      const Calibration calibration = LoadCalibration(settings.calibration, cores);
      costs_ = calibration.costs;
      if (!settings.table.empty()) {
        table_ = SelectionTable::FromJson(ReadFile(settings.table), settings.table, conditions_);
        origin_ = settings.table;
      } else if (calibration.TableFor(conditions_, table_)) {
        origin_ = calibration.name;
      }
      const Machine machine = MachineOf(costs_, conditions_.nranks);
      // Until the table has come the others wait: their cores are free. A few ranks' is not worth a thread.
      constexpr int kWorthThreads = 32;
      Pricing(machine, conditions_).Complete(table_, conditions_.nranks >= kWorthThreads ? cores : 1);
      shipped = {{kOrigin, origin_}, {kCosts, ToJson(costs_)}, {kTable, table_.ToJson(conditions_)}};
    } catch (const Error& error) {
      shipped = {{kError, error.what()}};
    }
    mine = shipped.dump();
  }
  const auto all = all_gather(std::as_bytes(std::span(mine)));
  const std::string text(reinterpret_cast<const char*>(all.front().data()), all.front().size());
  const auto shipped = nlohmann::json::parse(text, nullptr, false);
  if (!shipped.is_object()) Throw(tuttiInternalError, "rank 0 sent no selection table");
  if (shipped.contains(kError)) Throw(tuttiInvalidArgument, "{}", shipped[kError].get<std::string>());
  origin_ = shipped[kOrigin].get<std::string>();
  costs_ = HostCostsFromJson(shipped[kCosts].get<std::string>(), "rank 0's machine");
  table_ = SelectionTable::FromJson(shipped[kTable].get<std::string>(), "rank 0's selection table", conditions_);
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

std::string Selector::Explain(const Kind& kind, std::size_t bytes) const {
  const Machine machine = MachineOf(costs_, conditions_.nranks);
  Pricing pricing(machine, conditions_);
  return tutti::Explain(pricing, kind, bytes, table_.At(kind, bytes).candidate);
}

}  // namespace tutti
