#include "tutti/parallel/context_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "parallel/compute/joining.h"
#include "tutti/parallel/error.h"
#include "tutti/parallel/mixed_heads.h"

namespace tutti::parallel {
namespace {

// What ranks must agree on, and what messages call it.
using Terms = std::vector<std::pair<std::string, std::uint64_t>>;

Terms TermsOf(const ContextParallelConfig& config) {
  return {{"the sequence's length", config.sequence},
          {"the batch", config.batch},
          {"the number of heads", config.heads},
          {"the number of heads of keys and values", config.kv_heads},
          {"the width of a head", config.width},
          {"the mask (1: causal)", config.causal ? 1 : 0},
          {"the window", config.window},
          {"the placement (1: zigzag)", config.placement == SequencePlacement::zigzag ? 1 : 0},
          {"the elements' type's code", static_cast<std::uint64_t>(config.dtype)},
          {"the size of cu_seqlens", config.cu_seqlens.size()},
          {"the first of cu_seqlens", config.cu_seqlens.front()},
          {"the last of cu_seqlens", config.cu_seqlens.back()}};
}
Terms BordersOf(const ContextParallelConfig& config) {
  Terms borders;
  for (const auto border : config.cu_seqlens) {
    borders.emplace_back(fmt::format("cu_seqlens[{}]", borders.size()), border);
  }
  return borders;
}

ContextParallelConfig Completed(ContextParallelConfig config) {
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.cu_seqlens.empty()) config.cu_seqlens = {0, config.sequence};
  return config;
}

std::vector<std::uint64_t> Gather(ProcessGroup& group, std::vector<std::uint64_t> mine) {
  if (group.size() == 1) return mine;
  std::vector<std::uint64_t> all(mine.size() * group.ranks().size());
  group.all_gather(Tensor(mine.data(), {mine.size()}, tuttiUint64), Tensor(all.data(), {all.size()}, tuttiUint64));
  return all;
}

// All ranks have all terms afterwards, and so find the same difference. REQUIRES: they have equally many.
void RequireAgreement(ProcessGroup& ulysses, ProcessGroup& ring, const Terms& terms) {
  std::vector<std::uint64_t> mine;
  for (const auto& term : terms) mine.push_back(term.second);
  const auto all = Gather(ring, Gather(ulysses, mine));
  for (std::size_t term = 0; term < terms.size(); ++term) {
    for (std::size_t rank = 1; rank < all.size() / terms.size(); ++rank) {
      const auto theirs = all[rank * terms.size() + term];
      if (theirs == all[term]) continue;
      throw Error(tuttiInvalidUsage, fmt::format("{} is {} on context-parallel rank 0, but {} on rank {}",
                                                 terms[term].first, all[term], theirs, rank));
    }
  }
}

void RequireBorders(const std::vector<std::size_t>& cu_seqlens) {
  if (cu_seqlens.empty()) throw Error(tuttiInvalidArgument, "cu_seqlens is empty, but begins with 0");
  require_equal("the first of cu_seqlens", cu_seqlens.front(), "the first position", 0);
  const auto falls = std::ranges::adjacent_find(cu_seqlens, std::ranges::greater());
  if (falls == cu_seqlens.end()) return;
  throw Error(tuttiInvalidArgument, fmt::format("cu_seqlens has {} behind {}: it must ascend", falls[1], falls[0]));
}

// Checks the terms that are the same on all ranks.
void RequireUsable(const ContextParallelConfig& config, std::size_t inside) {
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
  RequireBorders(config.cu_seqlens);
  require_equal("the last of cu_seqlens", config.cu_seqlens.back(), "the sequence's length", config.sequence);
}

// The configuration, complete, once all ranks know that it is usable.
ContextParallelConfig Agreed(ProcessGroup& ulysses, ProcessGroup& ring, const ContextParallelConfig& given) {
  auto config = Completed(given);
  RequireAgreement(ulysses, ring, TermsOf(config));
  if (config.cu_seqlens.size() > 2) RequireAgreement(ulysses, ring, BordersOf(config));  // between the two ends
  RequireUsable(config, ulysses.ranks().size());
  return config;
}

std::size_t RankIn(const ProcessGroup& group) { return static_cast<std::size_t>(group.rank()); }

}  // namespace

std::vector<std::size_t> context_positions(SequencePlacement placement, const std::vector<std::size_t>& cu_seqlens,
                                           std::size_t ulysses_rank, std::size_t ulysses_size, std::size_t ring_rank,
                                           std::size_t ring_size) {
  RequireBorders(cu_seqlens);
  const auto rows = positions_of(chunks_of(placement, cu_seqlens, ring_rank, ring_size));
  const auto [begin, end] = part_of(rows.size(), ulysses_rank, ulysses_size);
  return {rows.begin() + static_cast<std::ptrdiff_t>(begin), rows.begin() + static_cast<std::ptrdiff_t>(end)};
}

ContextParallelAttention::ContextParallelAttention(ProcessGroup& ulysses, ProcessGroup& ring,
                                                   AttentionCompute& attention, const ContextParallelConfig& config)
    : ulysses_(ulysses),
      ring_(ring),
      attention_(attention),
      config_(Agreed(ulysses, ring, config)),
      ring_attention_(ring, attention, config_.placement, config_.cu_seqlens, {config_.causal, config_.window}),
      positions_(context_positions(config_.placement, config_.cu_seqlens, RankIn(ulysses), ulysses.ranks().size(),
                                   RankIn(ring), ring.ranks().size())),
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
  part[0] = ring_attention_.rows();
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
  // Ranks of both groups wait for this one if it leaves midway.
  const OverlappedCommunication exchanging(compute, ulysses_), passing(compute, ring_);
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
  const OverlappedCommunication exchanging(compute, ulysses_), passing(compute, ring_);
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
