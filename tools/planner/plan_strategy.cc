#include "tools/planner/plan_strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti::tools {
namespace {

constexpr double kOptimizerBytes = 12, kLogitBytes = 4;
constexpr int kMostVirtualStages = 8, kMostMicroBatch = 16, kMostZero = 3;

// For one layer and token, in elements, before tensor and context parallelism split them. Flash attention keeps no
// scores (Dao et al. 2022); there is no dropout. With recomputing, a layer keeps its input (Korthikanti et al. 2022).
double KeptPerToken(const LanguageModel& model, bool recompute) {
  if (recompute) return model.hidden;
  const double norms = 2 * model.hidden, attention = model.hidden * (3 + 2.0 * model.kv_heads / model.heads);
  const double copies = std::max(model.top_k, 1);
  const double mlp = copies * (model.hidden + (model.gated ? 3 : 2) * model.ffn);
  return norms + attention + mlp;
}

// The micro-batches whose activations the first or the last stage holds. 1F1B: as many as there are stages from it to
// the last. Interleaved 1F1B: chunks of a stage, a round of micro-batches for each chunk but one, and twice the stages
// behind this one (docs/parallel_pipeline.md).
double HeldMicrobatches(const Strategy& s, const LanguageModel& model, bool first) {
  const int microbatches = s.microbatches(model), behind = first ? s.pp - 1 : 0;
  if (s.virtual_stages == 1) return std::min(behind + 1, microbatches);
  const int rounds = std::max(1, microbatches / s.pp), largest_round = (microbatches + rounds - 1) / rounds;
  const int chunks = std::min((s.virtual_stages - 1) * largest_round + 2 * behind + 1, s.virtual_stages * microbatches);
  return static_cast<double>(chunks) / s.virtual_stages;
}

double ActivationBytes(const Strategy& strategy, const LanguageModel& model, bool first) {
  const double tokens = strategy.micro_batch * model.sequence / strategy.cp / strategy.tp;
  double elements =
      HeldMicrobatches(strategy, model, first) * strategy.stage_layers(model) * KeptPerToken(model, strategy.recompute);
  if (strategy.recompute) elements += KeptPerToken(model, false);  // for the layer being computed
  double bytes = tokens * elements * kActivationBytes;
  if (!first || strategy.pp == 1) bytes += tokens * model.vocabulary * kLogitBytes;
  return bytes;
}

MemoryNeed NeedOf(const Strategy& strategy, const LanguageModel& model, bool first) {
  const auto share = ShareOf(strategy, model);
  const double replicas = strategy.dp * strategy.cp;
  const double expert_replicas = replicas * strategy.tp / strategy.ep;
  const auto bytes = [&](double each, int from_level) {
    const bool shared = strategy.zero >= from_level;
    return each * (share.dense / (shared ? replicas : 1) + share.experts / (shared ? expert_replicas : 1));
  };
  return {bytes(kParameterBytes, 3), bytes(kGradientBytes, 2), bytes(kOptimizerBytes, 1),
          ActivationBytes(strategy, model, first)};
}

bool Divides(int divisor, double number) { return std::fmod(number, divisor) == 0; }

}  // namespace

int Strategy::stage_layers(const LanguageModel& model) const {
  const int chunks = pp * virtual_stages;
  return (model.layers + chunks - 1) / chunks * virtual_stages;
}

std::string WhyIllegal(const Strategy& s, const LanguageModel& model) {
  const auto undivided = [](const char* what, double quantity, const char* axis, int size) {
    return fmt::format("{} ({}) is not divisible by {} ({})", what, quantity, axis, size);
  };
  if (!Divides(s.tp, model.heads)) return undivided("heads", model.heads, "tp", s.tp);
  if (!Divides(s.tp, model.kv_heads) && s.tp % model.kv_heads != 0) {
    return undivided("kv_heads", model.kv_heads, "tp", s.tp);
  }
  if (!Divides(s.tp, model.ffn)) return undivided("ffn", model.ffn, "tp", s.tp);
  if (!Divides(s.tp, model.sequence)) return undivided("sequence", model.sequence, "tp", s.tp);
  if (s.cp > 1 && !Divides(2 * s.cp * s.tp, model.sequence)) {
    return undivided("sequence", model.sequence, "2 x cp x tp", 2 * s.cp * s.tp);
  }
  if (s.pp * s.virtual_stages > model.layers) {
    return fmt::format("{} stages are more than the {} layers", s.pp * s.virtual_stages, model.layers);
  }
  if (!Divides(s.dp, model.global_batch)) return undivided("global_batch", model.global_batch, "dp", s.dp);
  if (!Divides(s.micro_batch, model.global_batch / s.dp)) {
    return undivided("samples of a replica", model.global_batch / s.dp, "micro-batch", s.micro_batch);
  }
  if (s.virtual_stages > 1 && s.pp == 1) {
    return fmt::format("chunks is {}, but pp is 1, so there are no stages to interleave", s.virtual_stages);
  }
  if (model.experts == 0 && s.ep > 1) return fmt::format("ep is {}, but the model has no experts", s.ep);
  if (model.experts > 0 && model.experts % s.ep != 0) return undivided("experts", model.experts, "ep", s.ep);
  if (s.tp * s.cp * s.dp % s.ep != 0) return undivided("tp x cp x dp", s.tp * s.cp * s.dp, "ep", s.ep);
  if (s.zero > 0 && s.dp * s.cp == 1)
    return fmt::format("zero is {}, but dp x cp is 1, so no other rank shares the state", s.zero);
  return "";
}

Share ShareOf(const Strategy& strategy, const LanguageModel& model) {
  const double mlp = model.experts > 0 ? model.router_parameters() : model.expert_parameters();
  const double layer = model.attention_parameters() + mlp + 2 * model.hidden;
  const double embeddings = (strategy.pp == 1 ? 2 : 1) * model.embedding_parameters();
  const int layers = strategy.stage_layers(model);
  return {(layers * layer + embeddings) / strategy.tp,
          model.experts > 0 ? layers * model.expert_parameters() * model.experts / strategy.ep : 0};
}

MemoryNeed MemoryOf(const Strategy& strategy, const LanguageModel& model) {
  const auto first = NeedOf(strategy, model, true), last = NeedOf(strategy, model, false);
  return first.total() >= last.total() ? first : last;
}

std::vector<Strategy> LegalStrategies(const LanguageModel& model, int ranks, int most_tp) {
  std::vector<Strategy> legal;
  Strategy s;
  const auto each = [](int& axis, int most, const auto& function) {
    for (axis = 1; axis <= most; axis *= 2) function();
    axis = 1;
  };
  each(s.tp, std::min(ranks, most_tp), [&] {
    each(s.cp, ranks / s.tp, [&] {
      for (s.pp = 1; s.pp <= model.layers && s.tp * s.cp * s.pp <= ranks; ++s.pp) {
        if (ranks % (s.tp * s.cp * s.pp) != 0) continue;
        s.dp = ranks / (s.tp * s.cp * s.pp);
        each(s.ep, std::max(model.experts, 1), [&] {
          each(s.virtual_stages, kMostVirtualStages, [&] {
            each(s.micro_batch, kMostMicroBatch, [&] {
              for (s.zero = 0; s.zero <= kMostZero; ++s.zero) {
                for (const bool recompute : {false, true}) {
                  s.recompute = recompute;
                  if (WhyIllegal(s, model).empty()) legal.push_back(s);
                }
              }
            });
          });
        });
      }
    });
  });
  return legal;
}

std::string ToString(const Strategy& strategy) {
  std::string text = fmt::format("tp {} cp {} pp {} dp {}", strategy.tp, strategy.cp, strategy.pp, strategy.dp);
  if (strategy.ep > 1) text += fmt::format(" ep {}", strategy.ep);
  if (strategy.virtual_stages > 1) text += fmt::format(", {} chunks a stage", strategy.virtual_stages);
  text += fmt::format(", zero {}, micro-batch {}", strategy.zero, strategy.micro_batch);
  return text + (strategy.recompute ? ", recompute" : "");
}

}  // namespace tutti::tools
