// A way to split a model's training over GPUs: what is legal, and what each GPU has to hold.
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
  // Of a replica in a step. REQUIRES: legal.
  int microbatches(const LanguageModel& model) const { return model.global_batch / dp / micro_batch; }
  // Layers of the fullest stage: the last ones have fewer where they do not divide.
  int stage_layers(const LanguageModel& model) const;
};

// Why it cannot be run at all, for a person; empty if it can.
std::string WhyIllegal(const Strategy& strategy, const LanguageModel& model);

// Bytes of the fullest GPU. bf16 parameters, fp32 gradients, and fp32 master parameters with Adam's two moments:
// 2 + 4 + 12 bytes a parameter, of which ZeRO-1 shares the last, ZeRO-2 also the gradients, ZeRO-3 all (Rajbhandari et
// al. 2020).
struct MemoryNeed {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0;
  double total() const { return parameters + gradients + optimizer + activations; }
};
MemoryNeed MemoryOf(const Strategy& strategy, const LanguageModel& model);

// Parameters of one GPU before ZeRO shares them: of the dense layers, and of experts.
struct Share {
  double dense = 0, experts = 0;
};
Share ShareOf(const Strategy& strategy, const LanguageModel& model);

// Every legal one of so many ranks, in powers of two (and of the rest, where ranks are no power of two, by pipelines).
std::vector<Strategy> LegalStrategies(const LanguageModel& model, int ranks, int most_tp);

// "tp 8 pp 16 dp 64, zero 1, micro-batch 1, recompute".
std::string ToString(const Strategy& strategy);

}  // namespace tutti::tools
