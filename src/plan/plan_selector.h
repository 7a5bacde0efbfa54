// Chooses the plan of each call on one communicator. Rank 0 knows the machine's constants (calibrated or defaults),
// prices all candidates and ships one table to all ranks; afterwards a choice is a look-up.
//
// Thread-safety: Choose and Explain by one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/all_gather.h"
#include "base/settings/settings.h"
#include "selection/cost_model/host_machine.h"
#include "selection/tuner/explain.h"
#include "src/plan/external_tuner.h"
#include "src/plan/planned_call.h"
#include "src/plan/programs.h"
#include "transports/shm/descriptors/descriptor_exchange.h"

namespace tutti::plan {

// The summary of a plan for people; it outlives the plan.
struct PlanSummary {
  Choice choice;
  std::size_t channels;
  schedule::ProtocolConfig config;
};

class PlanSelector {
 public:
  // Collective. `tuning` are equal on all ranks; `programs` and `external`, which may be null, outlive this.
  // Throws tuttiInvalidArgument, on every rank, if a file that rank 0's settings name is missing or wrong.
  PlanSelector(cost_model::TuningContext tuning, const Programs& programs, const cost_model::Processors& processors,
               const std::optional<cost_model::NetworkCosts>& network, const Settings& settings,
               const ExternalTuner* external, int rank, const AllGather& all_gather);

  const cost_model::TuningContext& tuning() const { return tuning_; }
  const tuner::SelectionTable& table() const { return table_; }
  void UseTable(tuner::SelectionTable table) { table_ = std::move(table); }
  // Whether each rank asks a tuner of its own.
  bool tuned() const { return external_ != nullptr; }
  // `bytes`: of the buffer for all_reduce, broadcast and reduce; otherwise of the largest block.
  Choice Choose(const Operation& asked, const cost_model::Kind& kind, std::size_t bytes) const;
  // How the program moves the data.
  Choice Choose(const ServingProgram& serving, const cost_model::Kind& kind, std::size_t bytes) const;
  // Whether a new communicator tries plans of repeated calls (trials.h): between hosts, unless something else decides which plan
  // serves. Equal on all ranks.
  bool tries() const { return tries_; }
  // The chosen plan, and the others that are worth a trial, the cheapest first. REQUIRES: as Explain.
  std::vector<tuner::Estimate> Alternatives(const cost_model::Kind& kind, std::size_t bytes) const;
  // The predicted time of the choice.
  double Microseconds(const cost_model::Kind& kind, std::size_t bytes) const;
  // Every candidate and its predicted time. REQUIRES: rank 0, which knows all ranks' programs.
  std::string Explain(const cost_model::Kind& kind, std::size_t bytes, bool by_program) const;

 private:
  cost_model::TuningContext tuning_;
  cost_model::TuningContext program_tuning_;  // with only programs serving
  cost_model::HostCosts costs_;
  std::optional<cost_model::NetworkCosts> network_;  // rank 0's are used; null with one host
  std::string origin_;                               // of the table: "" if it was priced
  tuner::SelectionTable table_;
  tuner::SelectionTable program_table_;  // rows for the programs' collectives
  const ExternalTuner* external_;
  bool tries_ = false;
  std::unique_ptr<Pricing> pricing_;  // for the external tuner
};

}  // namespace tutti::plan
