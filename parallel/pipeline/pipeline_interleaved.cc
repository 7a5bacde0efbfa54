// Interleaved 1F1B: Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", figure 4, lower half.
#include <algorithm>

#include "parallel/pipeline/pipeline_making.h"

namespace tutti::parallel {

using enum PipelinePass;

PipelineSchedule interleaved_one_forward_one_backward(int stages, int microbatches, int chunks) {
  auto schedule = EmptySchedule("Interleaved1F1B", stages, microbatches, chunks);
  // A round of microbatches goes through a stage's first chunk, then through the next one, ... It has at least as many
  // as there are stages, so that they come back from the last stage in time. What is left over is divided among the
  // rounds, since the largest one says how many activations are held.
  const int rounds = std::max(1, microbatches / stages);
  const int largest = (microbatches + rounds - 1) / rounds;
  std::vector<PipelineAction> forwards, backwards;
  for (int round = 0, first = 0; round < rounds; ++round) {
    const int end = first + microbatches / rounds + (round < microbatches % rounds ? 1 : 0);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int k = first; k < end; ++k) forwards.push_back({forward, k, chunk});
      for (int k = first; k < end; ++k) backwards.push_back({backward, k, chunks - 1 - chunk});
    }
    first = end;
  }
  for (int stage = 0; stage < stages; ++stage) {
    auto& actions = schedule.actions[static_cast<std::size_t>(stage)];
    // As many as in Megatron-LM: all chunks but the last, and twice the stages behind this one.
    const auto ahead =
        std::min(static_cast<std::size_t>((chunks - 1) * largest + 2 * (stages - stage - 1)), forwards.size());
    for (std::size_t k = 0; k < forwards.size() + ahead; ++k) {
      if (k < forwards.size()) actions.push_back(forwards[k]);
      if (k >= ahead) actions.push_back(backwards[k - ahead]);
    }
  }
  schedule.exchanges = plan_exchanges(schedule);
  return schedule;
}

}  // namespace tutti::parallel
