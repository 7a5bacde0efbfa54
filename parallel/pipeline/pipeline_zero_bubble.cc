// ZB-H1: Qi et al. 2023, "Zero Bubble Pipeline Parallelism", figure 3, upper half.
#include <algorithm>

#include "parallel/pipeline/pipeline_making.h"

namespace tutti::parallel {

using enum PipelinePass;

PipelineSchedule zero_bubble_h1(int stages, int microbatches) {
  auto schedule = EmptySchedule("ZB-H1", stages, microbatches);
  for (int stage = 0; stage < stages; ++stage) {
    auto& actions = schedule.actions[static_cast<std::size_t>(stage)];
    const int ahead = std::min(stages - stage - 1, microbatches);
    for (int k = 0; k < ahead; ++k) actions.push_back({forward, k});
    for (int k = 0; k < microbatches; ++k) {
      if (k + ahead < microbatches) actions.push_back({forward, k + ahead});
      actions.push_back({backward_input, k});
      if (k >= stage) actions.push_back({backward_weight, k - stage});
    }
    for (int k = std::max(microbatches - stage, 0); k < microbatches; ++k) actions.push_back({backward_weight, k});
  }
  schedule.exchanges = plan_exchanges(schedule);
  return schedule;
}

}  // namespace tutti::parallel
