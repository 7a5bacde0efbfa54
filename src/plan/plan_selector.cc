#include "src/plan/plan_selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "algorithms/builders/records.h"
#include "base/all_gather.h"
#include "base/files/files.h"
#include "base/files/json.h"
#include "selection/tuner/calibration.h"
#include "src/bootstrap/rank_zero.h"
#include "src/plan/planning.h"

namespace tutti::plan {
namespace {

// Keys of what rank 0 ships: JSON, so that one reader serves files and ranks.
constexpr char kOrigin[] = "origin";
constexpr char kCosts[] = "costs";
constexpr char kTable[] = "table";
constexpr char kProgramTable[] = "program_table";
constexpr char kNetwork[] = "network";
constexpr char kBandwidth[] = "bandwidth";
constexpr char kMessage[] = "message_us";
constexpr char kMessageBandwidth[] = "message_bandwidth";
constexpr char kLatency[] = "latency_us_of_";  // and the protocol
constexpr double kMost = 1e12;

// Every rank is a process of this host, or of a domain of it, or there are several hosts like it.
cost_model::Machine MachineOf(cost_model::HostCosts costs, const cost_model::TuningContext& tuning,
                              const std::optional<cost_model::NetworkCosts>& network) {
  if (tuning.threads == 1) costs.costs.helpers_us = 0;  // there are none, whatever channels the user asks for
  if (tuning.domains) return cost_model::DomainsMachine(costs, tuning.where);
  if (tuning.one_host) return cost_model::HostMachine(costs, schedule::ArrangeEvenly(tuning.nranks, 1));
  return cost_model::HostMachine(costs, tuning.where, network);
}

std::string LatencyOf(std::size_t protocol) {
  return kLatency + std::string(ring::NameOf(static_cast<ring::Protocol>(protocol)));
}

nlohmann::json ToJson(const cost_model::NetworkCosts& network) {
  nlohmann::json json{
      {kBandwidth, network.bandwidth}, {kMessage, network.message_us}, {kMessageBandwidth, network.message_bandwidth}};
  for (std::size_t p = 0; p < network.latency.size(); ++p) json[LatencyOf(p)] = network.latency[p];
  return json;
}

cost_model::NetworkCosts NetworkFrom(const JsonValue& json) {
  cost_model::NetworkCosts network{};
  network.bandwidth = json.Number(kBandwidth, 0, kMost);
  network.message_us = json.Number(kMessage, 0, kMost);
  network.message_bandwidth = json.Number(kMessageBandwidth, 0, kMost);
  for (std::size_t p = 0; p < network.latency.size(); ++p) network.latency[p] = json.Number(LatencyOf(p), 0, kMost);
  return network;
}

// The table of the calls that programs serve, and nothing else.
tuner::SelectionTable PriceOfPrograms(const cost_model::Machine& machine, const cost_model::TuningContext& tuning) {
  tuner::Tuner tuner(machine, tuning);
  tuner::SelectionTable table;
  for (const cost_model::Kind& kind : cost_model::AllKinds()) {
    if (cost_model::WhyImpossible(builders::kFromFiles, kind, tuning).empty()) table.Set(kind, tuner.MakeRow(kind));
  }
  return table;
}

}  // namespace

PlanSelector::PlanSelector(cost_model::TuningContext tuning, const Programs& programs,
                           const cost_model::Processors& processors,
                           const std::optional<cost_model::NetworkCosts>& network, const Settings& settings,
                           const ExternalTuner* external, int rank, const AllGather& all_gather)
    : tuning_(std::move(tuning)), program_tuning_(programs.Among(tuning_)), network_(network), external_(external) {
  // The calibration measured one domain of one host, and additional channels for a program's connections make slots shorter.
  const bool as_calibrated =
      tuning_.one_host && !tuning_.domains && tuning_.max_channels <= cost_model::kFewestChannels;
  const auto shipped = bootstrap::FromRankZero(rank, all_gather, [&] {
    const tuner::Calibration calibration = tuner::LoadCalibration(settings.calibration, processors.of_host);
    costs_ = calibration.costs;
    if (!settings.table.empty()) {
      table_ = tuner::SelectionTable::FromJson(ReadFile(settings.table, tuner::kMaxTableFile), settings.table, tuning_);
      origin_ = settings.table;
    } else if (as_calibrated && calibration.TableFor(tuning_, table_)) {
      origin_ = calibration.name;
    }
    const cost_model::Machine machine = MachineOf(costs_, tuning_, network_);
    // The others wait for the table, so their cores are free. Pricing for a few ranks is not worth a thread.
    constexpr int kWorthThreads = 32;
    tuner::Tuner(machine, tuning_).Complete(table_, tuning_.nranks >= kWorthThreads ? processors.of_host : 1);
    program_table_ = PriceOfPrograms(machine, program_tuning_);
    nlohmann::json sent{{kOrigin, origin_},
                        {kCosts, cost_model::ToJson(costs_)},
                        {kTable, table_.ToJson(tuning_)},
                        {kProgramTable, program_table_.ToJson(program_tuning_)}};
    if (network_) sent[kNetwork] = ToJson(*network_);
    return sent;
  });
  const auto root = shipped.root();
  origin_ = root.Text(kOrigin);
  costs_ = cost_model::HostCostsFromJson(root.RawText(kCosts), "rank 0's machine");
  table_ = tuner::SelectionTable::FromJson(root.RawText(kTable), "rank 0's selection table", tuning_);
  program_table_ =
      tuner::SelectionTable::FromJson(root.RawText(kProgramTable), "rank 0's table of programs", program_tuning_);
  network_ = root.Has(kNetwork) ? std::optional(NetworkFrom(root.At(kNetwork))) : std::nullopt;
  // Rank 0 prices a call's plans while all ranks wait. That must not take long.
  constexpr int kMostRanks = 64;
  tries_ = network_ && tuning_.nranks <= kMostRanks && settings.measures() && origin_.empty() && external_ == nullptr &&
           programs.empty() && !tuning_.deterministic;
  if (external_ != nullptr) pricing_ = std::make_unique<Pricing>(MachineOf(costs_, tuning_, network_), tuning_);
}

Choice PlanSelector::Choose(const Operation& asked, const cost_model::Kind& kind, std::size_t bytes) const {
  auto usual = ChooseFrom(table_, origin_, tuning_, kind, bytes);
  if (external_ == nullptr) return usual;
  return external_->Choose(*pricing_, asked, kind, bytes, std::move(usual));
}

Choice PlanSelector::Choose(const ServingProgram& serving, const cost_model::Kind& kind, std::size_t bytes) const {
  return {program_table_.At(kind, bytes).candidate, fmt::format("{} from {}", serving.program.name, serving.path)};
}

std::vector<tuner::Estimate> PlanSelector::Alternatives(const cost_model::Kind& kind, std::size_t bytes) const {
  // A plan with a higher price is hardly ever the fastest one.
  constexpr double kWorthTrying = 2;
  const cost_model::Machine machine = MachineOf(costs_, tuning_, network_);
  tuner::Tuner tuner(machine, tuning_);
  const auto& chosen = table_.At(kind, bytes).candidate;
  const double price = tuner.Microseconds(chosen, kind, bytes);
  std::vector<tuner::Estimate> plans = {{chosen.algorithm, "", chosen, price}};
  for (auto& other : tuner.Compare(kind, bytes)) {
    const bool serves = other.why_not.empty() && other.algorithm != chosen.algorithm;
    if (serves && other.us < kWorthTrying * price) plans.push_back(std::move(other));
  }
  return plans;
}

double PlanSelector::Microseconds(const cost_model::Kind& kind, std::size_t bytes) const {
  const cost_model::Machine machine = MachineOf(costs_, tuning_, network_);
  return tuner::Tuner(machine, tuning_).Microseconds(table_.At(kind, bytes).candidate, kind, bytes);
}

std::string PlanSelector::Explain(const cost_model::Kind& kind, std::size_t bytes, bool by_program) const {
  const cost_model::Machine machine = MachineOf(costs_, tuning_, network_);
  tuner::Tuner tuner(machine, by_program ? program_tuning_ : tuning_);
  return tutti::tuner::Explain(tuner, kind, bytes, (by_program ? program_table_ : table_).At(kind, bytes).candidate);
}

}  // namespace tutti::plan
