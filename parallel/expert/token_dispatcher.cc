#include "tutti/parallel/token_dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "tutti/parallel/error.h"
#include "tutti/parallel/index_range.h"

namespace tutti::parallel {
namespace {

struct Quantity {
  const char* name;
  double value;
};

void CompareRanks(ProcessGroup& ep, const TokenDispatcherConfig& config, bool two_level) {
  const std::array<Quantity, 8> quantities{{{"num_experts", static_cast<double>(config.num_experts)},
                                            {"topk", static_cast<double>(config.topk)},
                                            {"hidden_size", static_cast<double>(config.hidden_size)},
                                            {"dtype", static_cast<double>(config.dtype)},
                                            {"capacity_factor", config.capacity_factor},
                                            {"ranks_per_host", static_cast<double>(config.ranks_per_host)},
                                            {"parts", static_cast<double>(config.parts)},
                                            {"levels", two_level ? 2.0 : 1.0}}};
  std::array<double, quantities.size()> mine{};
  std::ranges::transform(quantities, mine.begin(), &Quantity::value);
  std::vector<double> all(mine.size() * static_cast<std::size_t>(ep.size()));
  ep.all_gather(Tensor(mine.data(), {mine.size()}, tuttiFloat64), Tensor(all.data(), {all.size()}, tuttiFloat64));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t which = i % mine.size();
    if (std::bit_cast<std::uint64_t>(all[i]) == std::bit_cast<std::uint64_t>(all[which])) continue;
    throw Error(tuttiInvalidUsage, fmt::format("{} is {} on rank {} of group \"{}\", but {} on rank 0: the token "
                                               "dispatchers of a group need the same arguments",
                                               quantities[which].name, all[i], i / mine.size(), ep.name(), all[which]));
  }
}

void CheckConfig(const ProcessGroup& ep, const TokenDispatcherConfig& config) {
  const auto ranks = static_cast<std::size_t>(ep.size());
  if (config.num_experts < ranks) {
    throw Error(tuttiInvalidArgument,
                fmt::format("num_experts ({}) is less than the ranks of group \"{}\" ({}): every rank needs at least "
                            "one expert; use fewer expert-parallel ranks",
                            config.num_experts, ep.name(), ranks));
  }
  require_divisible("expert_model_parallel_size", ranks, "ranks_per_host", config.ranks_per_host);
  if (config.topk < 1 || config.topk > config.num_experts) {
    throw Error(tuttiInvalidArgument,
                fmt::format("topk is {}, but num_experts is {}", config.topk, config.num_experts));
  }
  if (config.hidden_size == 0 || config.parts == 0 || !(config.capacity_factor >= 0) ||
      !std::isfinite(config.capacity_factor)) {
    throw Error(
        tuttiInvalidArgument,
        fmt::format("hidden_size is {}, parts is {} and capacity_factor is {}; hidden_size and parts must be at "
                    "least 1 and capacity_factor at least 0",
                    config.hidden_size, config.parts, config.capacity_factor));
  }
}

TokenDispatcherConfig Checked(ProcessGroup& ep, const RailGroups* rails, TokenDispatcherConfig config) {
  if (config.ranks_per_host == 0)
    config.ranks_per_host = rails == nullptr ? ep.ranks().size() : rails->node.ranks().size();
  CompareRanks(ep, config, rails != nullptr);
  CheckConfig(ep, config);
  if (rails != nullptr) {
    require_equal("the size of the node's group", rails->node.ranks().size(), "ranks_per_host", config.ranks_per_host);
    require_equal("the size of the rail's group", rails->rail.ranks().size(), "the number of hosts",
                  ep.ranks().size() / config.ranks_per_host);
  }
  return config;
}

// Every `stride`-th rank of the group from `first`, `count` of them.
std::vector<int> Ranks(const ProcessGroup& ep, std::size_t first, std::size_t stride, std::size_t count) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < count; ++i) ranks.push_back(ep.ranks()[first + i * stride]);
  return ranks;
}

std::vector<int> HostOf(const ProcessGroup& ep, std::size_t per_host) {
  require_divisible("expert_model_parallel_size", ep.ranks().size(), "ranks_per_host", per_host);
  return Ranks(ep, static_cast<std::size_t>(ep.rank()) / per_host * per_host, 1, per_host);
}

}  // namespace

RailGroups::RailGroups(ProcessGroup& world, const ProcessGroup& ep, std::size_t ranks_per_host,
                       const tuttiConfig_t& config)
    : node(world, ep.name() + " node", HostOf(ep, ranks_per_host), config),
      rail(world, ep.name() + " rail",
           Ranks(ep, static_cast<std::size_t>(ep.rank()) % ranks_per_host, ranks_per_host,
                 ep.ranks().size() / ranks_per_host),
           config) {}

MoEAlltoAllTokenDispatcher::MoEAlltoAllTokenDispatcher(ProcessGroup& ep, RailGroups* rails, Compute& compute,
                                                       const TokenDispatcherConfig& config)
    : compute_(compute),
      config_(Checked(ep, rails, config)),
      to_hosts_(rails == nullptr ? nullptr : &rails->rail, compute, ep.ranks().size() / config_.ranks_per_host,
                ep.ranks().size(), config_.num_experts, config_.topk),
      to_experts_(rails == nullptr ? ep : rails->node, rails == nullptr ? nullptr : &rails->rail, compute,
                  rails == nullptr ? config_.num_experts
                                   : to_hosts_.experts_of(static_cast<std::size_t>(rails->rail.rank())).size(),
                  config_.topk) {}

MoEAlltoAllTokenDispatcher::MoEAlltoAllTokenDispatcher(ProcessGroup& ep, Compute& compute,
                                                       const TokenDispatcherConfig& config)
    : MoEAlltoAllTokenDispatcher(ep, nullptr, compute, config) {}

MoEAlltoAllTokenDispatcher::MoEAlltoAllTokenDispatcher(ProcessGroup& ep, RailGroups& rails, Compute& compute,
                                                       const TokenDispatcherConfig& config)
    : MoEAlltoAllTokenDispatcher(ep, &rails, compute, config) {}

void MoEAlltoAllTokenDispatcher::RequireTokens(const char* what, const Tensor& tensor, std::size_t rows) const {
  require_shape(what, tensor, {rows, config_.hidden_size});
  require_type(what, tensor, config_.dtype);
}

// Drops choices beyond an expert's capacity.
void MoEAlltoAllTokenDispatcher::Drop(std::vector<std::int32_t>& experts) const {
  if (config_.capacity_factor == 0) return;
  const auto capacity = static_cast<std::int64_t>(std::ceil(
      config_.capacity_factor * static_cast<double>(experts.size()) / static_cast<double>(config_.num_experts)));
  std::vector<std::int64_t> taken(config_.num_experts);
  for (auto& expert : experts) {
    if (expert >= 0 && taken[static_cast<std::size_t>(expert)]++ >= capacity) expert = -1;
  }
}

DispatchHandle MoEAlltoAllTokenDispatcher::get_dispatch_layout(const Routing& routing) {
  return std::move(Layouts(routing, 1).front());
}
std::vector<DispatchHandle> MoEAlltoAllTokenDispatcher::get_dispatch_layouts(const Routing& routing) {
  return Layouts(routing, config_.parts);
}

std::vector<DispatchHandle> MoEAlltoAllTokenDispatcher::Layouts(const Routing& routing, std::size_t parts) {
  require_equal("the routing's num_experts", routing.num_experts, "the dispatcher's", config_.num_experts);
  require_equal("the routing's topk", routing.topk, "the dispatcher's", config_.topk);
  auto experts = routing.topk_indices;
  for (std::size_t i = 0; i < experts.size(); ++i) {
    if (experts[i] >= -1 && experts[i] < static_cast<std::int32_t>(config_.num_experts)) continue;
    throw Error(tuttiInvalidArgument, fmt::format("token {} is routed to expert {}, but there are {}", i / config_.topk,
                                                  experts[i], config_.num_experts));
  }
  Drop(experts);
  std::vector<DispatchHandle> handles(parts);
  auto begin = experts.cbegin();
  auto routed = routing.topk_indices.cbegin();
  for (std::size_t part = 0; part < parts; ++part) {
    auto& handle = handles[part];
    handle.tokens = part_of(routing.tokens(), part, parts).size();
    const auto choices = static_cast<std::ptrdiff_t>(handle.tokens * config_.topk);
    const std::vector<std::int32_t> mine(begin, begin + choices);
    handle.dropped = std::count(begin, begin + choices, -1) - std::count(routed, routed + choices, -1);
    if (to_hosts_.hosts() > 1) handle.hosts = to_hosts_.plan(mine);
    handle.plan = handle.hosts ? to_experts_.plan(handle.hosts->experts, handle.hosts->segments)
                               : to_experts_.plan(mine, {handle.tokens});
    begin += choices;
    routed += choices;
  }
  return handles;
}

void MoEAlltoAllTokenDispatcher::AddUp(const Tensor& returned, const Tensor& weights, const DispatchHandle& handle,
                                       const Tensor& output) {
  if (!handle.hosts) return compute_.sum_rows(returned, handle.plan.sent_row_of, weights, output);
  const Buffer sums(compute_, {handle.plan.rows, returned.columns()}, returned.dtype);
  compute_.sum_rows(returned, handle.plan.sent_row_of, weights, sums);
  to_hosts_.send_back(*handle.hosts, sums, output);
}

RowsUnderWay MoEAlltoAllTokenDispatcher::dispatch_begin(const Tensor& tokens, const DispatchHandle& handle,
                                                        bool overlapped) {
  RequireTokens("tokens", tokens, handle.tokens);
  if (!handle.hosts) return to_experts_.send(handle.plan, tokens, Tensor(), overlapped);
  return to_experts_.send(handle.plan, to_hosts_.send(*handle.hosts, tokens), Tensor(), overlapped);
}

Buffer MoEAlltoAllTokenDispatcher::dispatch_end(RowsUnderWay rows, const DispatchHandle& handle) {
  return to_experts_.receive(handle.plan, std::move(rows));
}

Buffer MoEAlltoAllTokenDispatcher::dispatch(const Tensor& tokens, const DispatchHandle& handle) {
  return dispatch_end(dispatch_begin(tokens, handle, false), handle);
}

RowsUnderWay MoEAlltoAllTokenDispatcher::dispatch_backward_begin(const Tensor& grad_rows, const DispatchHandle& handle,
                                                                 bool overlapped) {
  RequireTokens("grad_rows", grad_rows, handle.received());
  return to_experts_.send_back(handle.plan, grad_rows, overlapped);
}

void MoEAlltoAllTokenDispatcher::dispatch_backward_end(RowsUnderWay rows, const DispatchHandle& handle,
                                                       const Tensor& grad_tokens) {
  RequireTokens("grad_tokens", grad_tokens, handle.tokens);
  AddUp(to_experts_.receive_back(std::move(rows)), Tensor(), handle, grad_tokens);
}

void MoEAlltoAllTokenDispatcher::dispatch_backward(const Tensor& grad_rows, const DispatchHandle& handle,
                                                   const Tensor& grad_tokens) {
  RequireTokens("grad_tokens", grad_tokens, handle.tokens);
  dispatch_backward_end(dispatch_backward_begin(grad_rows, handle, false), handle, grad_tokens);
}

RowsUnderWay MoEAlltoAllTokenDispatcher::combine_begin(const Tensor& expert_output, const Tensor& weights,
                                                       const DispatchHandle& handle, bool overlapped) {
  RequireTokens("expert_output", expert_output, handle.received());
  require_shape("weights", weights, {handle.tokens, config_.topk});
  return to_experts_.send_back(handle.plan, expert_output, overlapped);
}

Combined MoEAlltoAllTokenDispatcher::combine_end(RowsUnderWay rows, const Tensor& weights, const DispatchHandle& handle,
                                                 const Tensor& output) {
  RequireTokens("output", output, handle.tokens);
  require_shape("weights", weights, {handle.tokens, config_.topk});
  Combined combined{to_experts_.receive_back(std::move(rows)), Buffer()};
  if (handle.hosts) {
    combined.weights = to_hosts_.send(*handle.hosts, weights);
  } else {
    combined.weights = Buffer(compute_, weights.shape, weights.dtype);
    compute_.copy_columns(weights, 0, combined.weights, 0, config_.topk);
  }
  AddUp(combined.returned, combined.weights, handle, output);
  return combined;
}

Combined MoEAlltoAllTokenDispatcher::combine(const Tensor& expert_output, const Tensor& weights,
                                             const DispatchHandle& handle, const Tensor& output) {
  RequireTokens("output", output, handle.tokens);
  return combine_end(combine_begin(expert_output, weights, handle, false), weights, handle, output);
}

RowsUnderWay MoEAlltoAllTokenDispatcher::combine_backward_begin(const Tensor& grad_output, const Combined& combined,
                                                                const DispatchHandle& handle,
                                                                const Tensor& grad_weights, bool overlapped) {
  RequireTokens("grad_output", grad_output, handle.tokens);
  require_shape("grad_weights", grad_weights, {handle.tokens, config_.topk});
  if (!handle.hosts) {
    compute_.dot_rows(grad_output, combined.returned, handle.plan.sent_row_of, grad_weights);
    return to_experts_.send(handle.plan, grad_output, combined.weights, overlapped);
  }
  const Buffer grad = to_hosts_.send(*handle.hosts, grad_output);
  const Buffer dots(compute_, combined.weights.tensor().shape, grad_weights.dtype);
  compute_.dot_rows(grad, combined.returned, handle.plan.sent_row_of, dots);
  to_hosts_.send_back(*handle.hosts, dots, grad_weights);
  return to_experts_.send(handle.plan, grad, combined.weights, overlapped);
}

Buffer MoEAlltoAllTokenDispatcher::combine_backward(const Tensor& grad_output, const Combined& combined,
                                                    const DispatchHandle& handle, const Tensor& grad_weights) {
  return dispatch_end(combine_backward_begin(grad_output, combined, handle, grad_weights, false), handle);
}

}  // namespace tutti::parallel
