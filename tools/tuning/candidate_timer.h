// Times every candidate of a call on this machine, side by side: ranks are processes of their own, all candidates run
// on one communicator in turn, and every rank's clock counts.
//
// Thread-safety: none. REQUIRES a process with one thread (it forks).
#pragma once

#include <vector>

#include "selection/cost_model/candidates.h"

namespace tutti::tools {

// A call, and its candidates' times.
struct TimedCell {
  Kind kind;
  std::size_t bytes = 0;  // as for SelectionTable::At
  std::vector<Candidate> candidates;
  std::vector<double> us = {};  // of each candidate: the slowest rank's mean; of repetitions, the interquartile mean
};

struct TimingOptions {
  int nranks = 2;
  int repetitions = 5;
  double loop_ms = 10;  // of one candidate in one repetition
};

// The conditions of a communicator of so many ranks of this host, one thread each, free in every choice.
Conditions HostConditions(int nranks);

// Fills `us` of every cell. Throws tuttiInternalError if a rank fails, with its reason.
void TimeCandidates(std::vector<TimedCell>& cells, const TimingOptions& options);

// All collectives but gather, scatter and reduce, of which nobody measures peers; float32; every candidate of every
// algorithm. `total_bytes`: of a rank's larger buffer.
std::vector<TimedCell> EveryCandidate(const Conditions& conditions, const std::vector<std::size_t>& total_bytes);

}  // namespace tutti::tools
