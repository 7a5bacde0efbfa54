// Plays a schedule under rendezvous: what verifier and simulator share.
#pragma once

#include <string>
#include <vector>

#include "tutti/parallel/pipeline_simulate.h"

namespace tutti::parallel {

struct PipelineWalk {
  std::vector<std::vector<PipelineSpan>> spans;  // of the actions that were done
  std::string problem;                           // what stopped it before the end
};

// Actions start as early as they can. REQUIRES: a row of actions for every stage, durations for every stage.
PipelineWalk Walk(const PipelineSchedule& schedule, const PipelineDurations& durations);

}  // namespace tutti::parallel
