// Chooses the plan of each call on one communicator. Rank 0 knows the machine's constants (calibrated or defaults),
// prices all candidates and ships one table to all ranks; afterwards a choice is a look-up.
//
// Thread-safety: Choose and Explain by one thread at a time.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/settings.h"
#include "selection/cost_model/host_machine.h"
#include "selection/tuner/explain.h"
#include "src/plan/programs.h"
#include "transports/shm/descriptor_exchange.h"

namespace tutti {

struct Choice {
  Candidate candidate;
  std::string reason;  // for a person
};

// The summary of a plan for people; it outlives the plan.
struct PlanSummary {
  Choice choice;
  std::size_t channels;
  Shape shape;
};

class PlanSelector {
 public:
  // Collective. `tuning` are equal on all ranks, `programs` outlive this.
  // Throws tuttiInvalidArgument, on every rank, if a file that rank 0's settings name is missing or wrong.
  PlanSelector(TuningContext tuning, const Programs& programs, const Processors& processors,
               const std::optional<NetworkCosts>& network, const Settings& settings, int rank,
               const AllGather& all_gather);

  const TuningContext& tuning() const { return tuning_; }
  const SelectionTable& table() const { return table_; }
  void UseTable(SelectionTable table) { table_ = std::move(table); }
  // `bytes`: of the buffer for all_reduce, broadcast and reduce; otherwise of the largest block.
  Choice Choose(const Kind& kind, std::size_t bytes) const;
  // How the program moves the data.
  Choice Choose(const ServingProgram& serving, const Kind& kind, std::size_t bytes) const;
  // Every candidate and its predicted time. REQUIRES: rank 0, which knows all ranks' programs.
  std::string Explain(const Kind& kind, std::size_t bytes, bool by_program) const;

 private:
  TuningContext tuning_;
  TuningContext program_conditions_;  // with only programs serving
  HostCosts costs_;
  std::optional<NetworkCosts> network_;  // rank 0's are used; null with one host
  std::string origin_;                   // of the table: "" if it was priced
  SelectionTable table_;
  SelectionTable program_table_;  // rows for the programs' collectives
};

}  // namespace tutti
