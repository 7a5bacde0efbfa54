// The selector: prices every candidate for every size on a machine, and keeps the winners in a table.
//
// Thread-safety: Pricing is used by one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "selection/cost_model/cost_model.h"
#include "selection/tuner/selection_table.h"

namespace tutti::tuner {

// An algorithm and, if it may serve, the best way to move the data by it.
struct Estimate {
  tuttiAlgorithm_t algorithm = tuttiAlgorithmNone;
  std::string why_not = {};  // not empty: impossible, and the other members are unset
  cost_model::Candidate candidate = {};
  double us = 0;
};

class Tuner {
 public:
  // Both arguments outlive this. REQUIRES: they have equally many ranks.
  Tuner(const cost_model::Machine& machine, const cost_model::TuningContext& tuning)
      : machine_(machine), tuning_(tuning) {}

  const cost_model::TuningContext& tuning() const { return tuning_; }
  // One candidate. REQUIRES: its algorithm may serve.
  double Microseconds(const cost_model::Candidate& candidate, const cost_model::Kind& kind, std::size_t bytes);
  // Every algorithm, the cheapest first, those that are out of the question last.
  std::vector<Estimate> Compare(const cost_model::Kind& kind, std::size_t bytes);
  // Every algorithm that may serve, by every protocol and number of channels that it could have, each in its best chunks.
  std::vector<Estimate> Offers(const cost_model::Kind& kind, std::size_t bytes);
  // Of the whole schedule. REQUIRES: the candidate's algorithm may serve.
  int ChannelsOf(const cost_model::Candidate& candidate, schedule::Collective collective) {
    return candidate.channels * CostModelOf(candidate.algorithm, collective).unit().channels;
  }
  // The row of one kind.
  std::vector<TableEntry> MakeRow(const cost_model::Kind& kind);
  // Keeps rows that `table` already has. `threads` threads share the work.
  void Complete(SelectionTable& table, int threads = 1);

 private:
  std::optional<Estimate> Better(const cost_model::Candidate& incumbent, const cost_model::Kind& kind,
                                 std::size_t bytes);
  const cost_model::CostModel& CostModelOf(tuttiAlgorithm_t algorithm, schedule::Collective collective);
  Estimate Best(tuttiAlgorithm_t algorithm, const cost_model::Kind& kind, std::size_t bytes);
  std::size_t Footprint(schedule::Collective collective, std::size_t bytes) const;

  const cost_model::Machine& machine_;
  const cost_model::TuningContext& tuning_;
  std::map<std::pair<tuttiAlgorithm_t, schedule::Collective>, std::unique_ptr<cost_model::CostModel>> cost_models_;
};

}  // namespace tutti::tuner
