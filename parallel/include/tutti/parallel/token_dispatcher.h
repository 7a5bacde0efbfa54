// Expert parallelism: every rank has some of the experts; tokens travel to their experts, and the results travel back
// and are added up.
//
//   const DispatchHandle handle = dispatcher.get_dispatch_layout(routing);       // rows between each two ranks
//   const Buffer rows = dispatcher.dispatch(tokens, handle);                     // sorted by local expert
//   ... the experts: handle.tokens_per_expert() rows each ...
//   const Combined combined = dispatcher.combine(expert_output, routing.topk_weights, handle, output);
//
// The backward of a dispatch is a combine, and that of a combine a dispatch. The handle serves them all, any number of
// times, with a single exchange of counts.
//
// Two forms, equal bit for bit. Flat: every rank sends to every rank. Two-level: a token goes once to each host that
// has an expert of it, to the rank with the sender's place in its host (its rail), and from there to the experts'
// ranks; on the way back that rank adds the token's contributions before one row goes over the rail.
//
// Sources: Lepikhin et al. 2020, "GShard" (capacity); Gale et al. 2022, "MegaBlocks" (dropless); Megatron-Core's
// MoEAlltoAllTokenDispatcher; DeepSeek's DeepEP (handles, rails).
//
// Order: rows arrive sorted by local expert, then source rank, then token. A token's contributions are added in the
// order of its choices, those of each host first, then the hosts' sums. So the results depend on nothing but the input.
//
// Thread-safety: one thread at a time. A handle is constant: several micro-batches may share one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tutti/parallel/rail_exchange.h"
#include "tutti/parallel/router.h"

namespace tutti::parallel {

struct TUTTI_API TokenDispatcherConfig {
  std::size_t num_experts = 0;  // a rank has part_of(num_experts, rank, ranks)
  std::size_t topk = 2;
  std::size_t hidden_size = 0;
  tuttiDataType_t dtype = tuttiFloat32;
  // 0: dropless. Else an expert takes the first ceil(factor * tokens * topk / num_experts) choices of a rank's tokens;
  // the others contribute nothing.
  double capacity_factor = 0;
  // Ranks per host; the group's ranks come host by host. Without rails it only sets the order in which contributions
  // are added. 0: as in the rails, or all on one host.
  std::size_t ranks_per_host = 0;
  // Into as many parts get_dispatch_layouts() divides a rank's tokens.
  std::size_t parts = 1;
};

// The groups of the two-level form.
struct TUTTI_API RailGroups {
  // Splits `ep`, a group of `world`. Throws Error unless ranks_per_host divides ep's size. `world` outlives this.
  RailGroups(ProcessGroup& world, const ProcessGroup& ep, std::size_t ranks_per_host,
             const tuttiConfig_t& config = TUTTI_CONFIG_INITIALIZER);

  ProcessGroup node;  // inside this rank's host
  ProcessGroup rail;  // the ranks with this one's place in their hosts
};

struct TUTTI_API DispatchHandle {
  std::size_t tokens = 0;
  std::int64_t dropped = 0;       // choices of this rank's tokens
  std::optional<RailPlan> hosts;  // if there are several
  ExchangePlan plan;

  // Rows that dispatch() gives this rank, by local expert.
  const std::vector<std::size_t>& tokens_per_expert() const { return plan.tokens_per_expert; }
  std::size_t received() const { return plan.received; }
};

// A combine's results that its backward pass needs.
struct TUTTI_API Combined {
  Buffer returned;  // the experts' rows, unweighted
  Buffer weights;
};

class TUTTI_API MoEAlltoAllTokenDispatcher {
 public:
  // Flat, or two-level with `rails`. Collective over ep: ranks compare their arguments. Throws Error naming the
  // quantity and both values, on every rank, before any token is sent, where they differ, num_experts is less than the
  // ranks, or a size is not possible. Everything given outlives this.
  MoEAlltoAllTokenDispatcher(ProcessGroup& ep, Compute& compute, const TokenDispatcherConfig& config);
  MoEAlltoAllTokenDispatcher(ProcessGroup& ep, RailGroups& rails, Compute& compute,
                             const TokenDispatcherConfig& config);

  // All that follow are collective. For a routing or a shape that does not fit, they throw Error, on this rank alone
  // and before it sends anything; an end that throws has left the exchange (RowsUnderWay).
  DispatchHandle get_dispatch_layout(const Routing& routing);
  // For computing one part of the tokens while another one travels: handles of TokenDispatcherConfig::parts consecutive
  // parts (part_of). All together drop the choices that a single handle would.
  std::vector<DispatchHandle> get_dispatch_layouts(const Routing& routing);
  // tokens [handle.tokens, hidden_size]; the result is [handle.received(), hidden_size].
  Buffer dispatch(const Tensor& tokens, const DispatchHandle& handle);
  void dispatch_backward(const Tensor& grad_rows, const DispatchHandle& handle, const Tensor& grad_tokens);
  // expert_output [handle.received(), hidden_size], weights [handle.tokens, topk]; output as tokens.
  Combined combine(const Tensor& expert_output, const Tensor& weights, const DispatchHandle& handle,
                   const Tensor& output);
  // Returns the gradient of expert_output, and writes that of the weights.
  Buffer combine_backward(const Tensor& grad_output, const Combined& combined, const DispatchHandle& handle,
                          const Tensor& grad_weights);

  // The same in two parts, between which this rank computes: with `overlapped` the exchange runs on the Compute's
  // communication stream (over rails, its part inside the host does). Until an end, no other exchange begins.
  RowsUnderWay dispatch_begin(const Tensor& tokens, const DispatchHandle& handle, bool overlapped = true);
  Buffer dispatch_end(RowsUnderWay rows, const DispatchHandle& handle);
  RowsUnderWay combine_begin(const Tensor& expert_output, const Tensor& weights, const DispatchHandle& handle,
                             bool overlapped = true);
  Combined combine_end(RowsUnderWay rows, const Tensor& weights, const DispatchHandle& handle, const Tensor& output);
  // dispatch_end() ends it.
  RowsUnderWay combine_backward_begin(const Tensor& grad_output, const Combined& combined, const DispatchHandle& handle,
                                      const Tensor& grad_weights, bool overlapped = true);
  RowsUnderWay dispatch_backward_begin(const Tensor& grad_rows, const DispatchHandle& handle, bool overlapped = true);
  void dispatch_backward_end(RowsUnderWay rows, const DispatchHandle& handle, const Tensor& grad_tokens);

 private:
  MoEAlltoAllTokenDispatcher(ProcessGroup& ep, RailGroups* rails, Compute& compute,
                             const TokenDispatcherConfig& config);

  std::vector<DispatchHandle> Layouts(const Routing& routing, std::size_t parts);
  void Drop(std::vector<std::int32_t>& experts) const;
  // Adds up the returned rows for each row that was exchanged, then for each token.
  void AddUp(const Tensor& returned, const Tensor& weights, const DispatchHandle& handle, const Tensor& output);
  void RequireTokens(const char* what, const Tensor& tensor, std::size_t rows) const;

  Compute& compute_;
  TokenDispatcherConfig config_;
  RailExchange to_hosts_;
  ExpertExchange to_experts_;
};

}  // namespace tutti::parallel
