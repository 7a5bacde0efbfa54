// The most memory that a rank's parameters, gradients and optimiser's state take, by the formulas of ZeRO and FSDP, for
// comparison with what was allocated.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "parameters.h"
#include "tutti/parallel/pipeline_schedule.h"

namespace train_lm {

struct MemoryUse {
  std::uint64_t parameters = 0, gradients = 0, optimizer_state = 0;
};

// Bytes of this rank, whose pipeline stage has `ranges` and does `actions`. With P, G = P and O = 2 P bytes of
// float32 parameters, gradients and Adam's moments, over n ranks:
//   --zero 0   P + G + O
//   --zero 1   P + G + O / n
//   --zero 2   P + (G + O) / n, and the gradients of two units: one is computed while the other is reduced
//   --zero 3   (P + G + O) / n, those, and the parameters of two units: one is used while the other is gathered
// For experts, n counts the ranks that have the same ones; a rank that is alone there shares nothing. The two units are
// consecutive, in a pass or from one pass to the next. Backwards in two parts have two places for gradients, each as
// large as the largest unit that uses it. If a unit's gradients are reduced more than once a step, the arriving part of
// the one being reduced counts, too.
MemoryUse expected_memory(const TrainConfig& config, const std::vector<StageRange>& ranges,
                          const std::vector<tutti::parallel::PipelineAction>& actions, ParallelState& state);

}  // namespace train_lm
