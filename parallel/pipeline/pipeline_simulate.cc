#include "tutti/parallel/pipeline_simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "parallel/pipeline/pipeline_walk.h"
#include "tutti/parallel/error.h"
#include "tutti/parallel/pipeline_verify.h"

namespace tutti::parallel {
namespace {

void CheckDurations(const char* what, const std::vector<double>& durations, int stages) {
  if (std::ssize(durations) != stages) {
    throw Error(tuttiInvalidArgument,
                fmt::format("there are {} durations of a {}, but {} stages", durations.size(), what, stages));
  }
  const auto negative = std::ranges::find_if_not(durations, [](double each) { return each >= 0; });
  if (negative != durations.end()) {
    throw Error(tuttiInvalidArgument, fmt::format("stage {}'s {} takes {}; at least 0 is needed",
                                                  negative - durations.begin(), what, *negative));
  }
}

}  // namespace

PipelineDurations PipelineDurations::uniform(int stages, double forward, double backward, double transfer) {
  const auto count = static_cast<std::size_t>(stages);
  return {std::vector(count, forward), std::vector(count, backward), transfer};
}

double PipelineDurations::of(PipelinePass pass, int stage) const {
  const auto place = static_cast<std::size_t>(stage);
  switch (pass) {
    case PipelinePass::forward: return forward[place];
    case PipelinePass::backward: return backward[place];
    case PipelinePass::backward_input: return backward[place] * (1 - weight_share);
    case PipelinePass::backward_weight: return backward[place] * weight_share;
  }
  return 0;
}

double PipelineTimeline::makespan() const {
  double first = std::numeric_limits<double>::infinity(), last = 0;
  for (const auto& stage : spans) {
    if (stage.empty()) continue;
    first = std::min(first, stage.front().start);
    last = std::max(last, stage.back().end);
  }
  return last > first ? last - first : 0;
}

double PipelineTimeline::bubble_fraction() const {
  const double all = makespan() * static_cast<double>(spans.size());
  if (all == 0) return 0;
  double busy = 0;
  for (const auto& stage : spans) {
    for (const auto& span : stage) busy += span.end - span.start;
  }
  return 1 - busy / all;
}

PipelineTimeline pipeline_simulate(const PipelineSchedule& schedule, const PipelineDurations& durations,
                                   PipelineTransport transport) {
  require_verified(schedule);
  CheckDurations("forward", durations.forward, schedule.stages);
  CheckDurations("backward", durations.backward, schedule.stages);
  if (!(durations.transfer >= 0)) {
    throw Error(tuttiInvalidArgument, fmt::format("a transfer takes {}; at least 0 is needed", durations.transfer));
  }
  if (!(durations.weight_share >= 0 && durations.weight_share <= 1)) {
    throw Error(tuttiInvalidArgument,
                fmt::format("the weights' share of a backward is {}; it must be from 0 to 1", durations.weight_share));
  }
  const bool buffered = transport == PipelineTransport::buffered;
  return {(buffered ? WalkBuffered(schedule, durations) : Walk(schedule, durations)).spans};
}

double ideal_bubble_fraction(int stages, int microbatches, int chunks) {
  return static_cast<double>(stages - 1) / static_cast<double>(chunks * microbatches + stages - 1);
}

double zero_bubble_h1_fraction(int stages, int microbatches, double forward, double input, double weight) {
  const double bubble = (stages - 1) * (forward + input - weight);
  return bubble / (microbatches * (forward + input + weight) + bubble);
}

}  // namespace tutti::parallel
