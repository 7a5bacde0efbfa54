// Ways to split a model's training over GPUs: which are legal, and the memory that each GPU needs.
//
// Thread-safety: value types and pure functions.
#pragma once

#include <string>
#include <vector>

#include "tools/planner/plan_model.h"

namespace tutti::tools {

struct Strategy {
  int tp = 1;  // with sequence parallelism (Korthikanti et al. 2022)
  int cp = 1;  // ring attention
  int dp = 1;
  int pp = 1;
  int ep = 1;  // of tp x cp x dp; experts are whole
  int virtual_stages = 1;
  int zero = 0;
  int micro_batch = 1;  // samples
  bool recompute = false;

  int ranks() const { return tp * cp * dp * pp; }
  // Micro-batches of a replica in a step. REQUIRES: legal.
  int microbatches(const LanguageModel& model) const { return model.global_batch / dp / micro_batch; }
  // Layers of the fullest stage: where layers do not divide evenly, the last stages have fewer.
  int stage_layers(const LanguageModel& model) const;
};

// Why the strategy cannot run at all, as a readable message; empty if it can.
std::string WhyIllegal(const Strategy& strategy, const LanguageModel& model);

// Bytes on the fullest GPU: bf16 parameters, fp32 gradients, and fp32 master parameters with Adam's two moments, or 2 +
// 4 + 12 bytes per parameter. ZeRO-1 shards the last, ZeRO-2 also the gradients, ZeRO-3 all (Rajbhandari et al. 2020).
inline constexpr double kParameterBytes = 2, kGradientBytes = 4, kActivationBytes = 2;
struct MemoryNeed {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0;
  double total() const { return parameters + gradients + optimizer + activations; }
};
MemoryNeed MemoryOf(const Strategy& strategy, const LanguageModel& model);

// Parameters of one GPU before ZeRO shards them: of the dense layers, and of experts.
struct Share {
  double dense = 0, experts = 0;
};
Share ShareOf(const Strategy& strategy, const LanguageModel& model);

// Every legal strategy for this number of ranks, in powers of two (if ranks are no power of two, pipelines cover the
// rest).
std::vector<Strategy> LegalStrategies(const LanguageModel& model, int ranks, int most_tp);

// "tp 8 pp 16 dp 64, zero 1, micro-batch 1, recompute".
std::string ToString(const Strategy& strategy);

}  // namespace tutti::tools
