#include "tutti/parallel/context_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "tutti/parallel/error.h"
#include "tutti/parallel/mixed_heads.h"

namespace tutti::parallel {
namespace {

using Terms = std::array<std::uint64_t, 9>;
constexpr std::array<const char*, std::tuple_size_v<Terms>> kNames{"the sequence's length",
                                                                   "the batch",
                                                                   "the number of heads",
                                                                   "the number of heads of keys and values",
                                                                   "the width of a head",
                                                                   "the mask (1: causal)",
                                                                   "the window",
                                                                   "the placement (1: zigzag)",
                                                                   "the elements' type's code"};

Terms TermsOf(const ContextParallelConfig& config) {
  return {config.sequence,
          config.batch,
          config.heads,
          config.kv_heads,
          config.width,
          config.causal ? 1U : 0U,
          config.window,
          config.placement == SequencePlacement::zigzag ? 1U : 0U,
          static_cast<std::uint64_t>(config.dtype)};
}

ContextParallelConfig WithHeads(ContextParallelConfig config) {
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  return config;
}

std::vector<Terms> Gather(ProcessGroup& group, std::vector<Terms> mine) {
  if (group.size() == 1) return mine;
  std::vector<Terms> all(mine.size() * group.ranks().size());
  group.all_gather(Tensor(mine.data(), {mine.size() * std::tuple_size_v<Terms>}, tuttiUint64),
                   Tensor(all.data(), {all.size() * std::tuple_size_v<Terms>}, tuttiUint64));
  return all;
}

// All ranks have all terms afterwards, and so find the same difference.
void RequireAgreement(ProcessGroup& ulysses, ProcessGroup& ring, const ContextParallelConfig& config) {
  const auto all = Gather(ring, Gather(ulysses, {TermsOf(config)}));
  for (std::size_t term = 0; term < kNames.size(); ++term) {
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank][term] == all[0][term]) continue;
      throw Error(tuttiInvalidUsage, fmt::format("{} is {} on context-parallel rank 0, but {} on rank {}", kNames[term],
                                                 all[0][term], all[rank][term], rank));
    }
  }
}

// Checks the terms that are the same on all ranks.
void RequireUsable(const ContextParallelConfig& config, std::size_t inside, std::size_t across) {
  if (config.dtype != tuttiFloat32 && config.dtype != tuttiBfloat16) {
    throw Error(tuttiInvalidArgument, fmt::format("the element type of attention is {}; it can be float32 or bfloat16",
                                                  name_of(config.dtype)));
  }
  if (config.window > 0 && !config.causal) {
    throw Error(tuttiInvalidArgument, fmt::format("the window is {}, but the mask is not causal: a window covers "
                                                  "positions up to the query's and needs a causal mask",
                                                  config.window));
  }
  require_divisible("the number of heads", config.heads, "ulysses_size", inside);
  require_divisible("the number of heads", config.heads, "kv_heads", config.kv_heads);
  if (inside % config.kv_heads != 0) require_divisible("kv_heads", config.kv_heads, "ulysses_size", inside);
  require_divisible("the sequence's length", config.sequence, "context_parallel_size", inside * across);
  require_placeable(config.placement, config.sequence, across);
}

std::vector<std::size_t> PositionsOf(ProcessGroup& ulysses, ProcessGroup& ring, const ContextParallelConfig& config) {
  RequireAgreement(ulysses, ring, config);
  const auto inside = static_cast<std::size_t>(ulysses.size()), across = static_cast<std::size_t>(ring.size());
  RequireUsable(config, inside, across);
  const auto rows = positions_of(config.placement, config.sequence, static_cast<std::size_t>(ring.rank()), across);
  const auto count = static_cast<std::ptrdiff_t>(rows.size() / inside);
  const auto first = rows.begin() + ulysses.rank() * count;
  return {first, first + count};
}

}  // namespace

ContextParallelAttention::ContextParallelAttention(ProcessGroup& ulysses, ProcessGroup& ring,
                                                   AttentionCompute& attention, const ContextParallelConfig& config)
    : ulysses_(ulysses),
      attention_(attention),
      config_(WithHeads(config)),
      ring_attention_(ring, attention, config.placement, {config.causal, config.window}),
      positions_(PositionsOf(ulysses, ring, config_)),
      copies_(std::max<std::size_t>(ulysses.ranks().size() / config_.kv_heads, 1)) {}

void ContextParallelAttention::Require(const std::vector<Named>& mixed, const std::vector<Named>& outputs) const {
  for (const auto& [what, tensor] : mixed) {
    require_shape(what, tensor, mixed_shape(rows(), config_.batch, config_.heads, config_.kv_heads, config_.width));
    require_type(what, tensor, config_.dtype);
  }
  for (const auto& [what, tensor] : outputs) {
    require_shape(what, tensor, {rows(), config_.batch, config_.heads, config_.width});
    require_type(what, tensor, config_.dtype);
  }
}

// The shape for all of the ring rank's part of the sequence, from that for this rank's part.
Shape ContextParallelAttention::ForRing(Shape part) const {
  part[0] *= ulysses_.ranks().size();
  part[2] /= ulysses_.ranks().size();
  return part;
}

// With at least one head of keys and values for every rank.
Shape ContextParallelAttention::ToExchange(const Tensor& qkv) const {
  return copies_keys() ? split_groups_shape(qkv.shape, copies_) : qkv.shape;
}

ContextParallelAttention::Saved ContextParallelAttention::forward(const Tensor& qkv, const Tensor& out) {
  Require({{"qkv", qkv}}, {{"out", out}});
  auto& compute = attention_.compute();
  Saved saved{Buffer(compute, ForRing({rows(), config_.batch, config_.heads, 1})), {}, {}};
  if (!exchanges()) {
    ring_attention_.forward(qkv, out, saved.lse);
    return saved;
  }
  Buffer copied;
  if (copies_keys()) {
    copied = Buffer(compute, ToExchange(qkv), config_.dtype);
    split_groups(compute, qkv, copied);
  }
  saved.qkv = Buffer(compute, ForRing(ToExchange(qkv)), config_.dtype);
  saved.out = Buffer(compute, ForRing(out.shape), config_.dtype);
  scatter_heads_gather_sequence(ulysses_, compute, copies_keys() ? copied.tensor() : qkv, saved.qkv);
  ring_attention_.forward(saved.qkv, saved.out, saved.lse);
  scatter_sequence_gather_heads(ulysses_, compute, saved.out, out);
  return saved;
}

void ContextParallelAttention::backward(const Tensor& qkv, const Tensor& out, const Saved& saved,
                                        const Tensor& grad_out, const Tensor& grad_qkv) {
  Require({{"qkv", qkv}, {"grad_qkv", grad_qkv}}, {{"out", out}, {"grad_out", grad_out}});
  if (!exchanges()) return ring_attention_.backward(qkv, out, saved.lse, grad_out, grad_qkv);
  auto& compute = attention_.compute();
  const Buffer grads(compute, ForRing(grad_out.shape), config_.dtype);
  const Buffer to(compute, ForRing(ToExchange(grad_qkv)), config_.dtype);
  scatter_sequence_gather_heads_backward(ulysses_, compute, grad_out, grads);
  ring_attention_.backward(saved.qkv, saved.out, saved.lse, grads, to);
  if (!copies_keys()) return scatter_heads_gather_sequence_backward(ulysses_, compute, to, grad_qkv);
  const Buffer copied(compute, ToExchange(grad_qkv), config_.dtype);
  scatter_heads_gather_sequence_backward(ulysses_, compute, to, copied);
  split_groups_backward(compute, copied, grad_qkv);
}

}  // namespace tutti::parallel
