// Lets the stages of a pipeline check, before a batch, whether they fit each other: each states its terms, all read
// every stage's, and all come to the same conclusion.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/parallel/pipeline.h"

namespace tutti::parallel {

struct PipelineTerms {
  std::string schedule;  // its name
  int stages = 0;
  int microbatches = 0;
  int chunks = 1;            // of the model, a stage
  std::uint64_t digest = 0;  // of its placement, actions and exchanges
  bool asks = false;         // what its chunks take and give is not known yet
  std::optional<TensorSpec> takes;
  std::optional<TensorSpec> gives;
  std::string trouble;  // why this stage cannot begin at all
};

PipelineTerms TermsOf(const PipelineSchedule& schedule);

// Throws Error unless the stages' schedules are the same (else tuttiInvalidUsage) and no stage has trouble (else
// tuttiInvalidArgument).
void RequireSameSchedule(const std::vector<PipelineTerms>& terms);
// Throws Error (tuttiInvalidUsage) unless each chunk takes what the previous one gives. `terms`: of all chunks, by
// chunk and stage: every stage's first, every stage's second, ...
void RequireFitting(const PipelineSchedule& schedule, const std::vector<PipelineTerms>& terms);

// Collective over `group`: returns every stage's terms, by stage. One all-gather of a record of fixed size; texts
// longer than its fields are cut. Dimensions beyond kMostDimensions are this stage's trouble.
inline constexpr std::size_t kMostDimensions = 8;
std::vector<PipelineTerms> Gather(ProcessGroup& group, const PipelineTerms& mine);

}  // namespace tutti::parallel
