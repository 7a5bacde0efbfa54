// Interleaved 1F1B: Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", figure 4, lower half.
#include <algorithm>

#include "parallel/pipeline/pipeline_making.h"
#include "tutti/parallel/tensor.h"

namespace tutti::parallel {
namespace {

// Step k of a stage's forwards: `stages` microbatches through the first chunk, the same through the next one, ..., then
// the next microbatches. Backwards go the other way through the chunks.
PipelineAction Step(const PipelineSchedule& schedule, PipelinePass pass, int k) {
  const int round = schedule.stages * schedule.chunks;
  const int chunk = k % round / schedule.stages;
  return {pass, k / round * schedule.stages + k % schedule.stages,
          pass == PipelinePass::forward ? chunk : schedule.chunks - 1 - chunk};
}

}  // namespace

PipelineSchedule interleaved_one_forward_one_backward(int stages, int microbatches, int chunks) {
  auto schedule = EmptySchedule("Interleaved1F1B", stages, microbatches, chunks);
  require_divisible("the number of microbatches", static_cast<std::size_t>(microbatches), "the number of stages",
                    static_cast<std::size_t>(stages));
  const int steps = microbatches * chunks;
  for (int stage = 0; stage < stages; ++stage) {
    auto& actions = schedule.actions[static_cast<std::size_t>(stage)];
    // As many as in Megatron-LM: all chunks but the last, and twice the stages behind this one.
    const int ahead = std::min((chunks - 1) * stages + 2 * (stages - stage - 1), steps);
    for (int k = 0; k < ahead; ++k) actions.push_back(Step(schedule, PipelinePass::forward, k));
    for (int k = ahead; k < steps; ++k) {
      actions.push_back(Step(schedule, PipelinePass::forward, k));
      actions.push_back(Step(schedule, PipelinePass::backward, k - ahead));
    }
    for (int k = steps - ahead; k < steps; ++k) actions.push_back(Step(schedule, PipelinePass::backward, k));
  }
  schedule.exchanges = plan_exchanges(schedule);
  return schedule;
}

}  // namespace tutti::parallel
