// Chooses each token's experts: those with the k largest probabilities, the softmax of the router's logits.
//
// Sources: Shazeer et al. 2017, "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer";
// Fedus et al. 2021, "Switch Transformers" (the load-balancing loss, equations 4 to 6). Names are Megatron-Core's and,
// for the renormalised probabilities, vLLM's.
//
// Equal logits go to the lower expert, so that a routing depends on nothing but the logits.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "tutti/parallel/compute.h"
#include "tutti/parallel/process_group.h"

namespace tutti::parallel {

// The experts of a rank's tokens.
struct TUTTI_API Routing {
  std::size_t num_experts = 0;
  std::size_t topk = 0;
  std::vector<std::int32_t> topk_indices;  // [tokens, topk], on the host; -1: no expert
  Buffer topk_weights;                     // [tokens, topk]
  Buffer probabilities;                    // [tokens, num_experts], for backward

  std::size_t tokens() const { return topk == 0 ? 0 : topk_indices.size() / topk; }
};

// How evenly the experts are used.
struct TUTTI_API LoadStatistics {
  std::vector<std::int64_t> tokens_per_expert;  // before any is dropped

  std::int64_t total() const;
  // 1: all alike; the number of experts: one has all tokens. 1 without tokens.
  double max_over_mean() const;
  // Adds up those of all ranks of the group, on each of them.
  void all_reduce(ProcessGroup& group);
};
// Those of this rank.
TUTTI_API LoadStatistics load_statistics(const Routing& routing);

struct TUTTI_API TopKRouterConfig {
  std::size_t num_experts = 0;
  std::size_t topk = 2;
  bool renormalize = true;   // weights of a token sum to 1
  float aux_loss_coeff = 0;  // Switch uses 0.01
};

class TUTTI_API TopKRouter {
 public:
  // Throws Error naming both values unless 1 <= topk <= num_experts.
  TopKRouter(Compute& compute, const TopKRouterConfig& config);

  // logits [tokens, num_experts].
  Routing forward(const Tensor& logits);
  // The load-balancing loss: coefficient * experts * sum over experts of (its share of all choices) * (its mean
  // probability over this rank's tokens). `load`: of all the ranks that share the batch; then the mean of their losses
  // is the whole batch's, as with data parallelism's gradients, if they have equally many tokens.
  float aux_loss(const Routing& routing, const LoadStatistics& load);
  // Gradient of the weights and, with a coefficient, of the load-balancing loss itself. grad_weights [tokens, topk],
  // grad_logits [tokens, num_experts].
  void backward(const Routing& routing, const LoadStatistics& load, const Tensor& grad_weights,
                const Tensor& grad_logits);

 private:
  // For each expert: the amount that a token's probability of it adds to the loss.
  std::vector<float> AuxLossGradient(const Routing& routing, const LoadStatistics& load) const;

  Compute& compute_;
  TopKRouterConfig config_;
};

}  // namespace tutti::parallel
