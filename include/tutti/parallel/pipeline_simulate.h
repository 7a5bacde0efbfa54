// How long a schedule takes, in virtual time, and how much of it stages stand idle: the bubble. Megatron-LM's paper
// (Narayanan et al. 2021) states the bubble as a share of the ideal time, (p - 1) / m; here it is a share of the time
// that the pipeline takes, (p - 1) / (m + p - 1), as in GPipe's (Huang et al. 2019).
//
// Thread-safety: values and pure functions.
#pragma once

#include <vector>

#include "tutti/parallel/pipeline_schedule.h"

namespace tutti::parallel {

// In any unit of time.
struct PipelineDurations {
  std::vector<double> forward;  // of one microbatch, by stage
  std::vector<double> backward;
  double transfer = 0;  // of one tensor between neighbours; transfers do not slow each other down

  static PipelineDurations uniform(int stages, double forward, double backward, double transfer = 0);
};

struct PipelineSpan {
  double start = 0;
  double end = 0;
};

// When each action is done: as computed, or as measured.
struct PipelineTimeline {
  std::vector<std::vector<PipelineSpan>> spans;  // by stage and place, as the schedule's actions

  // From the first start to the last end.
  double makespan() const;
  // The share of the stages' time in which they do none of their actions.
  double bubble_fraction() const;
};

// Every action as early as it can be, under rendezvous (pipeline_verify.h). Throws Error if the schedule cannot be run
// or durations are missing or negative.
PipelineTimeline pipeline_simulate(const PipelineSchedule& schedule, const PipelineDurations& durations);

// Of equal stages, by GPipe or 1F1B, transfers for nothing: (p - 1) / (m + p - 1).
double ideal_bubble_fraction(int stages, int microbatches);

}  // namespace tutti::parallel
