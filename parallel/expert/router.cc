#include "tutti/parallel/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tutti/parallel/error.h"

namespace tutti::parallel {

std::int64_t LoadStatistics::total() const {
  return std::accumulate(tokens_per_expert.begin(), tokens_per_expert.end(), std::int64_t{0});
}

double LoadStatistics::max_over_mean() const {
  if (total() == 0) return 1;
  const auto largest = *std::ranges::max_element(tokens_per_expert);
  return static_cast<double>(largest) * static_cast<double>(tokens_per_expert.size()) / static_cast<double>(total());
}

void LoadStatistics::all_reduce(ProcessGroup& group) {
  const Tensor all(tokens_per_expert.data(), {tokens_per_expert.size()}, tuttiInt64);
  group.all_reduce(all, all, tuttiSum);
}

LoadStatistics load_statistics(const Routing& routing) {
  LoadStatistics load{std::vector<std::int64_t>(routing.num_experts)};
  for (const auto expert : routing.topk_indices) {
    if (expert >= 0) ++load.tokens_per_expert[static_cast<std::size_t>(expert)];
  }
  return load;
}

TopKRouter::TopKRouter(Compute& compute, const TopKRouterConfig& config) : compute_(compute), config_(config) {
  if (config_.topk >= 1 && config_.topk <= config_.num_experts) return;
  throw Error(tuttiInvalidArgument, fmt::format("topk is {}, but num_experts is {}: topk must be from 1 to num_experts",
                                                config_.topk, config_.num_experts));
}

Routing TopKRouter::forward(const Tensor& logits) {
  require_equal("the logits' last dimension", logits.columns(), "num_experts", config_.num_experts);
  const std::size_t tokens = logits.rows();
  Routing routing{config_.num_experts, config_.topk, std::vector<std::int32_t>(tokens * config_.topk),
                  Buffer(compute_, {tokens, config_.topk}), Buffer(compute_, {tokens, config_.num_experts})};
  const Buffer indices(compute_, {tokens, config_.topk}, tuttiInt32);
  compute_.topk_softmax(logits, config_.renormalize, routing.probabilities, indices, routing.topk_weights);
  compute_.download(indices, routing.topk_indices.data());
  return routing;
}

std::vector<float> TopKRouter::AuxLossGradient(const Routing& routing, const LoadStatistics& load) const {
  require_equal("the number of experts of the load", load.tokens_per_expert.size(), "num_experts", config_.num_experts);
  std::vector<float> gradient(config_.num_experts);
  if (load.total() == 0 || routing.tokens() == 0) return gradient;
  const double factor = config_.aux_loss_coeff * static_cast<double>(config_.num_experts) /
                        static_cast<double>(load.total()) / static_cast<double>(routing.tokens());
  std::ranges::transform(load.tokens_per_expert, gradient.begin(), [factor](std::int64_t tokens) {
    return static_cast<float>(factor * static_cast<double>(tokens));
  });
  return gradient;
}

// The shares of the choices have no gradient with respect to the logits, so the loss is linear in the probabilities.
float TopKRouter::aux_loss(const Routing& routing, const LoadStatistics& load) {
  if (config_.aux_loss_coeff == 0) return 0;
  const Buffer sums(compute_, {config_.num_experts});
  compute_.zero(sums);
  compute_.add_rows(routing.probabilities, sums);
  std::vector<float> probabilities(config_.num_experts);
  compute_.download(sums, probabilities.data());
  const auto gradient = AuxLossGradient(routing, load);
  return std::inner_product(gradient.begin(), gradient.end(), probabilities.begin(), 0.0F);
}

void TopKRouter::backward(const Routing& routing, const LoadStatistics& load, const Tensor& grad_weights,
                          const Tensor& grad_logits) {
  require_shape("grad_weights", grad_weights, {routing.tokens(), config_.topk});
  require_shape("grad_logits", grad_logits, {routing.tokens(), config_.num_experts});
  const Buffer indices = uploaded(compute_, routing.topk_indices, config_.topk);
  const Buffer grad_columns(compute_, {config_.num_experts});
  compute_.upload(AuxLossGradient(routing, load).data(), grad_columns);
  compute_.topk_softmax_backward(routing.probabilities, indices, config_.renormalize, grad_weights, grad_columns,
                                 grad_logits);
}

}  // namespace tutti::parallel
