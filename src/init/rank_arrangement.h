// Which ranks schedules treat as near each other.
//
// Thread-safety: a function without state.
#pragma once

#include <vector>

#include "selection/cost_model/candidates.h"
#include "src/init/meeting.h"
#include "topology/graph/system.h"

namespace tutti::init {

// Sets `where`, `one_host` and `domains`. Where there are several hosts, each host is a node. On one host, each of its
// domains is one (topology/graph/domains.h), unless TUTTI_VIRTUAL_NODES pretends others. `processors`: by rank, those
// that the rank may run on. Rank 0 logs the domains.
void ArrangeRanks(const Meeting& meeting, const topology::System& system,
                  const std::vector<std::vector<int>>& processors, cost_model::TuningContext& tuning);

}  // namespace tutti::init
