// How much memory a rank's parameters, gradients and optimiser's state take at most, by the formulas of ZeRO and FSDP:
// what is compared with what was allocated.
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

// Bytes, of this rank, whose stage of the pipeline has `ranges` and does `actions`. With P, G = P and O = 2 P bytes of
// float32 parameters, gradients and Adam's moments, over n ranks:
//   --zero 0   P + G + O
//   --zero 1   P + G + O / n
//   --zero 2   P + (G + O) / n, and the gradients of two units: one is computed while the other is reduced
//   --zero 3   (P + G + O) / n, those, and the parameters of two units: one is used while the other is gathered
// n is of experts the ranks that have the same ones, and who is alone there shares nothing. Two units are two that
// follow each other, in a pass or from one pass to the next. Backwards in two parts have two places for gradients, each
// of the largest unit that goes there. Where a unit's gradients are reduced more than once a step, what arrives of the
// one that is reduced counts, too.
MemoryUse expected_memory(const TrainConfig& config, const std::vector<StageRange>& ranges,
                          const std::vector<tutti::parallel::PipelineAction>& actions, ParallelState& state);

}  // namespace train_lm
