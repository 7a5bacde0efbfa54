// Times every candidate of a call on this machine in turn: ranks are separate processes, all candidates run on one
// communicator, and every rank's clock counts.
//
// Thread-safety: none. REQUIRES a process with one thread (it forks).
#pragma once

#include <optional>
#include <vector>

#include "selection/cost_model/candidates.h"
#include "selection/cost_model/host_machine.h"

namespace tutti::tools {

// A call, and its candidates' times.
struct TimedCell {
  cost_model::Kind kind;
  std::size_t bytes = 0;  // as for SelectionTable::At
  std::vector<cost_model::Candidate> candidates;
  std::vector<double> us = {};  // by candidate: the slowest rank's mean; over repetitions, the interquartile mean
};

struct TimingOptions {
  int nranks = 2;
  int hosts = 1;  // of this machine, joined by TCP over loopback
  int repetitions = 5;
  double loop_ms = 10;  // of one candidate in one repetition
};

// The conditions of a communicator of `nranks` ranks on this host, one thread each, with every choice free. Forks a
// process (shm::MayReadProcesses). `hosts`: as TUTTI_VIRTUAL_HOSTS.
cost_model::TuningContext HostConditions(int nranks, int hosts = 1);

// What messages between these hosts cost, as ranks measure it when they meet. Null if there is one.
std::optional<cost_model::NetworkCosts> MeasuredNetwork(const TimingOptions& options);

// Fills `us` of every cell. A terminal shows how far it is. Throws tuttiInternalError if a rank fails, with its reason.
void TimeCandidates(std::vector<TimedCell>& cells, const TimingOptions& options);

// All collectives except gather, scatter and reduce, whose peers are not measured; float32; every candidate of every
// algorithm. `total_bytes`: sizes of a rank's larger buffer.
std::vector<TimedCell> EveryCandidate(const cost_model::TuningContext& tuning,
                                      const std::vector<std::size_t>& total_bytes);

}  // namespace tutti::tools
