// Plays a schedule: shared by verifier, simulator and planner.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tutti/parallel/pipeline_simulate.h"

namespace tutti::parallel {

// The key by which a transfer is found again.
using PipelineTransferKey = std::tuple<PipelinePass, int, int, int, int>;
inline PipelineTransferKey KeyOf(const PipelineTransfer& transfer) {
  const auto& made_by = transfer.made_by;
  return {made_by.pass, made_by.microbatch, made_by.chunk, transfer.from, transfer.to};
}

// Whether the stage that makes the tensor is the one that needs it, so that nothing is sent.
inline bool IsLocal(const PipelineTransfer& transfer) { return transfer.from == transfer.to; }

struct PipelineWalk {
  std::vector<std::vector<PipelineSpan>> spans;  // of the actions that were done
  std::string problem;                           // what stopped it before the end
};

// Under rendezvous. Actions start as early as they can. REQUIRES: a row of actions for every stage, durations for every
// stage.
PipelineWalk Walk(const PipelineSchedule& schedule, const PipelineDurations& durations);
// With buffered sends: exchanges do not matter, only what actions need of each other. Actions in `not_before`, by stage
// and place, start no earlier than it says. REQUIRES: as above.
using EarliestStarts = std::map<std::pair<int, std::size_t>, double>;
PipelineWalk WalkBuffered(const PipelineSchedule& schedule, const PipelineDurations& durations,
                          const EarliestStarts& not_before = {});

}  // namespace tutti::parallel
