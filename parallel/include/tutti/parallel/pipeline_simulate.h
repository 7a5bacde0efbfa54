// How long a schedule takes in virtual time, and how much of it stages stand idle: the bubble. Megatron-LM's paper
// (Narayanan et al. 2021) states the bubble as a share of the ideal time, (p - 1) / m; here it is a share of the
// pipeline's time, (p - 1) / (m + p - 1), as in GPipe's (Huang et al. 2019).
//
// Thread-safety: values and pure functions.
#pragma once

#include <vector>

#include "tutti/parallel/pipeline_schedule.h"

namespace tutti::parallel {

// In any unit of time.
struct TUTTI_API PipelineDurations {
  std::vector<double> forward;  // of one microbatch through one chunk, by stage
  std::vector<double> backward;
  double transfer = 0;        // of one tensor between neighbours; transfers do not slow each other down
  double weight_share = 0.5;  // the weights' share of a backward in two parts

  double of(PipelinePass pass, int stage) const;
  static PipelineDurations uniform(int stages, double forward, double backward, double transfer = 0);
};

struct TUTTI_API PipelineSpan {
  double start = 0;
  double end = 0;
};

// When each action runs: computed or measured.
struct TUTTI_API PipelineTimeline {
  std::vector<std::vector<PipelineSpan>> spans;  // by stage and place, as the schedule's actions

  // From the first start to the last end.
  double makespan() const;
  // The share of the stages' time in which they do none of their actions.
  double bubble_fraction() const;
};

// rendezvous: as in pipeline_verify.h and in the runner. buffered: a tensor arrives `transfer` after it was made, and
// its maker goes on at once, so that only the need for each other keeps stages waiting. The papers' formulas count
// this.
enum class PipelineTransport { rendezvous, buffered };

// Actions run as early as they can. Throws Error if the schedule cannot be run or durations are missing or negative.
TUTTI_API PipelineTimeline pipeline_simulate(const PipelineSchedule& schedule, const PipelineDurations& durations,
                                             PipelineTransport transport = PipelineTransport::rendezvous);

// For equal stages and GPipe or 1F1B, if transfers take no time: (p - 1) / (m + p - 1); with v chunks interleaved, m
// becomes v m.
TUTTI_API double ideal_bubble_fraction(int stages, int microbatches, int chunks = 1);
// For ZB-H1, if a stage's passes take these times: (p - 1) (forward + input - weight), as a share of the whole.
// REQUIRES: microbatches >= stages, weight <= forward.
TUTTI_API double zero_bubble_h1_fraction(int stages, int microbatches, double forward, double input, double weight);

}  // namespace tutti::parallel
