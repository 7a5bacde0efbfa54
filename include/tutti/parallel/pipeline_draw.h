// The chart by which people know pipeline schedules: a row a stage, time to the right, a box an action with its
// microbatch's number, forwards and backwards in two colours, idle time grey. Of what is computed or of what was
// measured. (Figures 2c of GPipe's paper, 3 and 4 of Megatron-LM's.)
//
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "tutti/parallel/pipeline_simulate.h"

namespace tutti::parallel {

// A whole SVG document. REQUIRES: `timeline` is of `schedule`.
std::string draw(const PipelineSchedule& schedule, const PipelineTimeline& timeline);
// For terminals, a line a stage: |F0|F1|.....|B0   |. REQUIRES: as above.
std::string draw_text(const PipelineSchedule& schedule, const PipelineTimeline& timeline);

}  // namespace tutti::parallel
