#include "tutti/parallel/context_parallel.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <utility>

#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

using Terms = std::array<std::uint64_t, 6>;
constexpr std::array<const char*, std::tuple_size_v<Terms>> kNames{
    "the sequence's length",    "the batch", "the number of heads", "the width of a head", "the mask (1: causal)",
    "the placement (1: zigzag)"};

Terms TermsOf(const ContextParallelConfig& config) {
  return {config.sequence,
          config.batch,
          config.heads,
          config.width,
          config.causal ? 1U : 0U,
          config.placement == SequencePlacement::zigzag ? 1U : 0U};
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

std::vector<std::size_t> PositionsOf(ProcessGroup& ulysses, ProcessGroup& ring, const ContextParallelConfig& config) {
  RequireAgreement(ulysses, ring, config);
  const auto inside = static_cast<std::size_t>(ulysses.size()), across = static_cast<std::size_t>(ring.size());
  require_divisible("the number of heads", config.heads, "ulysses_size", inside);
  require_divisible("the sequence's length", config.sequence, "context_parallel_size", inside * across);
  require_placeable(config.placement, config.sequence, across);
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
      config_(config),
      ring_attention_(ring, attention, config.placement, config.causal),
      positions_(PositionsOf(ulysses, ring, config)) {}

void ContextParallelAttention::Require(const std::vector<Named>& mixed, const std::vector<Named>& outputs) const {
  for (const auto& [what, tensor] : mixed) {
    require_shape(what, tensor, {rows(), config_.batch, config_.heads, 3, config_.width});
    require_type(what, tensor, tuttiFloat32);
  }
  for (const auto& [what, tensor] : outputs) {
    require_shape(what, tensor, {rows(), config_.batch, config_.heads, config_.width});
    require_type(what, tensor, tuttiFloat32);
  }
}

// Of what this rank has for its part of the sequence, what it needs for all of the ring rank's.
Buffer ContextParallelAttention::ForRing(Shape part) const {
  part[0] *= ulysses_.ranks().size();
  part[2] /= ulysses_.ranks().size();
  return {attention_.compute(), std::move(part)};
}

ContextParallelAttention::Saved ContextParallelAttention::forward(const Tensor& qkv, const Tensor& out) {
  Require({{"qkv", qkv}}, {{"out", out}});
  Saved saved{ForRing({rows(), config_.batch, config_.heads, 1}), {}, {}};
  if (!exchanges()) {
    ring_attention_.forward(qkv, out, saved.lse);
    return saved;
  }
  auto& compute = attention_.compute();
  saved.qkv = ForRing(qkv.shape);
  saved.out = ForRing(out.shape);
  scatter_heads_gather_sequence(ulysses_, compute, qkv, saved.qkv);
  ring_attention_.forward(saved.qkv, saved.out, saved.lse);
  scatter_sequence_gather_heads(ulysses_, compute, saved.out, out);
  return saved;
}

void ContextParallelAttention::backward(const Tensor& qkv, const Tensor& out, const Saved& saved,
                                        const Tensor& grad_out, const Tensor& grad_qkv) {
  Require({{"qkv", qkv}, {"grad_qkv", grad_qkv}}, {{"out", out}, {"grad_out", grad_out}});
  if (!exchanges()) return ring_attention_.backward(qkv, out, saved.lse, grad_out, grad_qkv);
  auto& compute = attention_.compute();
  const Buffer grads = ForRing(grad_out.shape), to = ForRing(grad_qkv.shape);
  scatter_sequence_gather_heads_backward(ulysses_, compute, grad_out, grads);
  ring_attention_.backward(saved.qkv, saved.out, saved.lse, grads, to);
  scatter_heads_gather_sequence_backward(ulysses_, compute, to, grad_qkv);
}

}  // namespace tutti::parallel
