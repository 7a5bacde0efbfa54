// ZB-H1: Qi et al. 2023, "Zero Bubble Pipeline Parallelism", figure 3, upper half. ZB-V: the same authors 2024,
// "Pipeline Parallelism with Controllable Memory", V-ZB.
#include <algorithm>
#include <initializer_list>
#include <map>
#include <utility>

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

PipelineSchedule zero_bubble_v(int stages, int microbatches) {
  auto schedule = EmptySchedule("ZB-V", stages, microbatches, 2);
  schedule.placement = PipelinePlacement::v;
  // As many fill the pipeline. With fewer microbatches the actions of those that are not there are left out.
  const int filling = std::max(microbatches, 2 * stages - 1);
  for (int stage = 0; stage < stages; ++stage) {
    std::map<std::pair<PipelinePass, int>, int> next;  // microbatch of a pass in a chunk
    const auto go = [&](int times, std::initializer_list<std::pair<PipelinePass, int>> passes) {
      for (int k = 0; k < times; ++k) {
        for (const auto& [pass, chunk] : passes) {
          const int microbatch = next[{pass, chunk}]++;
          if (microbatch < microbatches)
            schedule.actions[static_cast<std::size_t>(stage)].push_back({pass, microbatch, chunk});
        }
      }
    };
    // Until the first microbatch comes back, then until its gradient does.
    const int behind = stages - stage;
    go(2 * behind - 1, {{forward, 0}});
    go(stage, {{forward, 1}, {forward, 0}});
    go(behind, {{forward, 1}, {backward_input, 1}, {backward_weight, 1}});
    // One of each, as long as there are forwards.
    for (int k = filling - stages; k > 0; --k) {
      if (next[{forward, 0}] < filling) go(1, {{forward, 0}});
      go(1, {{backward_input, 0}, {backward_weight, 0}, {forward, 1}, {backward_input, 1}, {backward_weight, 1}});
    }
    // The previous stages wait for the inputs' gradients alone.
    go(stage, {{backward_input, 0}, {backward_input, 1}});
    go(behind, {{backward_input, 0}, {backward_weight, 0}});
    for (const int chunk : {1, 0}) go(filling - next[{backward_weight, chunk}], {{backward_weight, chunk}});
  }
  schedule.exchanges = plan_exchanges(schedule);
  return schedule;
}

}  // namespace tutti::parallel
