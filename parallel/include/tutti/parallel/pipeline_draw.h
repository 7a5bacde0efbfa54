// The usual chart of pipeline schedules, of computed or measured times: a row a stage, time to the right, a box an
// action with its microbatch's number, each kind of pass in its colour, a stage's later chunks lighter, idle time grey.
// (Figures 2c of GPipe's paper, 3 and 4 of Megatron-LM's, 3 of the zero-bubble one.)
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "tutti/parallel/pipeline_simulate.h"

namespace tutti::parallel {

// REQUIRES: `timeline` is of `schedule`.
struct TUTTI_API PipelineChart {
  PipelineSchedule schedule;
  PipelineTimeline timeline;
};
// A whole SVG document: charts one below the other, on the same clock.
TUTTI_API std::string draw(const std::vector<PipelineChart>& charts);
TUTTI_API std::string draw(const PipelineSchedule& schedule, const PipelineTimeline& timeline);
// For terminals, a line a stage: |F0|F1|.....|B0   |, with small letters for its later chunks. REQUIRES: as above.
TUTTI_API std::string draw_text(const PipelineSchedule& schedule, const PipelineTimeline& timeline);

}  // namespace tutti::parallel
