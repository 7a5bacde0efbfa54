// Interleaved 1F1B: Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", figure 4, lower half.
#include <algorithm>

#include "parallel/pipeline/pipeline_making.h"
#include "tutti/parallel/index_range.h"

namespace tutti::parallel {

using enum PipelinePass;

PipelineSchedule interleaved_one_forward_one_backward(int stages, int microbatches, int chunks) {
  auto schedule = EmptySchedule("Interleaved1F1B", stages, microbatches, chunks);
  // A round of microbatches goes through a stage's first chunk, then through the next one, ... It has at least as many
  // as there are stages, so that they come back from the last stage in time. What is left over is divided among the
  // rounds, since the largest one says how many activations are held.
  const auto rounds = static_cast<std::size_t>(std::max(1, microbatches / stages));
  const auto round_of = [&](std::size_t round) {
    return part_of(static_cast<std::size_t>(microbatches), round, rounds);
  };
  const std::size_t largest = round_of(0).size();
  std::vector<PipelineAction> forwards, backwards;
  for (std::size_t round = 0; round < rounds; ++round) {
    const auto [begin, finish] = round_of(round);
    const int first = static_cast<int>(begin), end = static_cast<int>(finish);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int k = first; k < end; ++k) forwards.push_back({forward, k, chunk});
      for (int k = first; k < end; ++k) backwards.push_back({backward, k, chunks - 1 - chunk});
    }
  }
  for (int stage = 0; stage < stages; ++stage) {
    auto& actions = schedule.actions[static_cast<std::size_t>(stage)];
    // As many as in Megatron-LM: all chunks but the last, and twice the stages behind this one.
    const std::size_t ahead =
        std::min(static_cast<std::size_t>(chunks - 1) * largest + 2 * static_cast<std::size_t>(stages - stage - 1),
                 forwards.size());
    for (std::size_t k = 0; k < forwards.size() + ahead; ++k) {
      if (k < forwards.size()) actions.push_back(forwards[k]);
      if (k >= ahead) actions.push_back(backwards[k - ahead]);
    }
  }
  schedule.exchanges = plan_exchanges(schedule);
  return schedule;
}

}  // namespace tutti::parallel
