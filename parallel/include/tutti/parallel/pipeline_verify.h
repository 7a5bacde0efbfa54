// Proves that a schedule can be run, or says in a sentence why not. It plays the schedule by the hardest rules that a
// transport may have, rendezvous: a send completes only while its receiver is in the exchange that has the matching
// receive. A schedule that passes does not deadlock where sends are buffered, either.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "tutti/parallel/pipeline_schedule.h"

namespace tutti::parallel {

struct TUTTI_API PipelineVerdict {
  // Empty: every stage does every microbatch's forward through each of its chunks exactly once and, later, its
  // backward, at once or for the input and then for the weights, unless the schedule has forwards only; every result is
  // sent once, after it was made, and received before it is needed; every transfer carries what its receiver expects;
  // no stage waits forever.
  std::string problem;
  // The most activations that a stage holds, one for each microbatch and chunk whose forward it has done, but not yet
  // all of its backward; by stage.
  std::vector<int> activations;
};

TUTTI_API PipelineVerdict pipeline_verify(const PipelineSchedule& schedule);
// Throws Error (tuttiInvalidArgument) with the problem, if there is one.
TUTTI_API PipelineVerdict require_verified(const PipelineSchedule& schedule);

}  // namespace tutti::parallel
