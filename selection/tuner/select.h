// The selector: prices every candidate for every size on a machine, and keeps the winners in a table.
//
// Thread-safety: Pricing is used by one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "selection/cost_model/price.h"
#include "selection/tuner/selection_table.h"

namespace tutti {

// An algorithm and, if it may serve, the best way to move the data by it.
struct Priced {
  tuttiAlgorithm_t algorithm = tuttiAlgorithmNone;
  std::string why_not = {};  // not empty: impossible, and the other members are unset
  Candidate candidate = {};
  double us = 0;
};

class Pricing {
 public:
  // Both arguments outlive this. REQUIRES: they have equally many ranks.
  Pricing(const Machine& machine, const TuningContext& tuning) : machine_(machine), tuning_(tuning) {}

  // One candidate. REQUIRES: its algorithm may serve.
  double Microseconds(const Candidate& candidate, const Kind& kind, std::size_t bytes);
  // Every algorithm, the cheapest first, those that are out of the question last.
  std::vector<Priced> Compare(const Kind& kind, std::size_t bytes);
  // The row of one kind.
  std::vector<TableEntry> MakeRow(const Kind& kind);
  // Keeps rows that `table` already has. `threads` threads share the work.
  void Complete(SelectionTable& table, int threads = 1);

 private:
  std::optional<Priced> Better(const Candidate& incumbent, const Kind& kind, std::size_t bytes);
  const Price& PriceOf(tuttiAlgorithm_t algorithm, Collective collective);
  Priced Best(tuttiAlgorithm_t algorithm, const Kind& kind, std::size_t bytes);
  std::size_t Footprint(Collective collective, std::size_t bytes) const;

  const Machine& machine_;
  const TuningContext& tuning_;
  std::map<std::pair<tuttiAlgorithm_t, Collective>, std::unique_ptr<Price>> prices_;
};

}  // namespace tutti
