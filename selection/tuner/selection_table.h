// Which candidate serves which size: one list of breakpoints for each kind of call. Computed once (tuner.h), sent to
// all ranks, and only looked up afterwards; exported, edited and loaded as JSON.
//
// Thread-safety: value type; const members from any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "selection/cost_model/candidates.h"

namespace tutti::tuner {

struct TableEntry {
  std::size_t from_bytes = 0;  // up to the next entry's
  cost_model::Candidate candidate;
  double us = 0;  // predicted, or measured, at from_bytes; for people

  friend bool operator==(const TableEntry&, const TableEntry&) = default;
};

class SelectionTable {
 public:
  // REQUIRES: entries ascend from 0.
  void Set(const cost_model::Kind& kind, std::vector<TableEntry> entries);
  bool Has(const cost_model::Kind& kind) const {
    return !rows_[static_cast<std::size_t>(cost_model::IndexOf(kind))].empty();
  }
  std::span<const TableEntry> Row(const cost_model::Kind& kind) const {
    return rows_[static_cast<std::size_t>(cost_model::IndexOf(kind))];
  }
  // REQUIRES: Has(kind).
  const TableEntry& At(const cost_model::Kind& kind, std::size_t bytes) const;

  // Writes only the rows that are set.
  std::string ToJson(const cost_model::TuningContext& tuning) const;
  // Whether it is a table for that many ranks and nodes. Throws tuttiInvalidArgument if the text lacks these numbers.
  static bool IsFor(const std::string& text, const std::string& name, const cost_model::TuningContext& tuning);
  // Throws tuttiInvalidArgument with `name`, the row and the reason if it is malformed, is for other numbers of ranks
  // or nodes, or names a candidate that cannot serve.
  static SelectionTable FromJson(const std::string& text, const std::string& name,
                                 const cost_model::TuningContext& tuning);

  friend bool operator==(const SelectionTable&, const SelectionTable&) = default;

 private:
  std::vector<std::vector<TableEntry>> rows_ = std::vector<std::vector<TableEntry>>(cost_model::AllKinds().size());
};

}  // namespace tutti::tuner
