// Plays a schedule: what verifier, simulator and planner share.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "tutti/parallel/pipeline_simulate.h"

namespace tutti::parallel {

// By which a transfer is found again.
using PipelineTransferKey = std::tuple<PipelinePass, int, int, int, int>;
inline PipelineTransferKey KeyOf(const PipelineTransfer& transfer) {
  const auto& made_by = transfer.made_by;
  return {made_by.pass, made_by.microbatch, made_by.chunk, transfer.from, transfer.to};
}

struct PipelineWalk {
  std::vector<std::vector<PipelineSpan>> spans;  // of the actions that were done
  std::string problem;                           // what stopped it before the end
};

// Under rendezvous. Actions start as early as they can. REQUIRES: a row of actions for every stage, durations for every
// stage.
PipelineWalk Walk(const PipelineSchedule& schedule, const PipelineDurations& durations);
// Where sends are buffered: exchanges do not matter, only what actions need of each other. REQUIRES: as above.
PipelineWalk WalkBuffered(const PipelineSchedule& schedule, const PipelineDurations& durations);

}  // namespace tutti::parallel
