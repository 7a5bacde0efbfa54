#include "tutti/parallel/ring_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "parallel/compute/joining.h"
#include "tutti/parallel/error.h"
#include "tutti/parallel/p2p_communication.h"

namespace tutti::parallel {
namespace {

constexpr std::size_t kRingParts = 3, kWidth = 4;  // dimensions of qkv
constexpr std::size_t kPair = 2;                   // a group's parts that are keys and values

void RequireMixed(const char* what, const Tensor& qkv, std::size_t rows) {
  if (qkv.dtype != tuttiBfloat16) require_type(what, qkv, tuttiFloat32);
  if (qkv.shape.size() == kWidth + 1 && qkv.shape[kRingParts] > kPair) {
    return require_equal("the number of rows of qkv", qkv.shape[0], "the number of this rank's positions", rows);
  }
  throw Error(tuttiInvalidArgument,
              fmt::format("{} has shape {}, but [rows, batch, kv_heads, heads / kv_heads + 2, width] is expected", what,
                          describe(qkv.shape)));
}

// The number of heads that see a head of keys and values.
std::size_t GroupSizeOf(const Tensor& qkv) { return qkv.shape[kRingParts] - kPair; }
Shape OfHeads(const Tensor& qkv, std::size_t width) {
  return {qkv.shape[0], qkv.shape[1], qkv.shape[2] * GroupSizeOf(qkv), width};
}
// Keys and values of `rows` positions.
Shape OfPairs(const Tensor& qkv, std::size_t rows) {
  return {rows, qkv.shape[1], qkv.shape[2], kPair, qkv.shape[kWidth]};
}

void Require(const char* what, const Tensor& tensor, const Shape& shape, tuttiDataType_t dtype) {
  require_type(what, tensor, dtype);
  require_shape(what, tensor, shape);
}

// A row for each group of heads of each position of each sample, with `parts` of it.
Tensor GroupMatrix(const Tensor& tensor, const Tensor& qkv, std::size_t parts) {
  return {tensor.data, {qkv.shape[0] * qkv.shape[1] * qkv.shape[2], parts * qkv.shape[kWidth]}, tensor.dtype};
}

// to: memory for the keys and values.
void PackKeysAndValues(Compute& compute, const Tensor& qkv, const Tensor& to) {
  const std::size_t width = qkv.shape[kWidth];
  compute.copy_columns(GroupMatrix(qkv, qkv, qkv.shape[kRingParts]), GroupSizeOf(qkv) * width,
                       GroupMatrix(to, qkv, kPair), 0, kPair * width);
}

// The block's part of `rows`.
HeadRows QueriesOf(const AttentionBlock& block, const HeadRows& rows) {
  return rows.range(block.first_query, block.queries);
}
HeadRows KeysOf(const AttentionBlock& block, const HeadRows& rows) { return rows.range(block.first_key, block.keys); }
// pairs: keys and values, perhaps with queries.
AttentionInputs InputsOf(const AttentionBlock& block, const Tensor& qkv, const Tensor& pairs) {
  return {QueriesOf(block, queries_of(qkv)), KeysOf(block, keys_of(pairs)), KeysOf(block, values_of(pairs)), block.mask,
          block.lead};
}

}  // namespace

// The blocks that come here, and the ranks that they go on to: in step s this rank has the block of its owner, the rank
// s places before it.
class RingAttention::Route {
 public:
  Route(const RingAttention& ring, const Tensor& qkv)
      : ring_(ring), qkv_(qkv), size_(ring.chunks_.size()), rank_(static_cast<std::size_t>(ring.group_.rank())) {}

  std::size_t size() const { return size_; }
  bool is_shared() const { return ring_.reach_[rank_] > 0; }
  // In step 0 every rank has its own block.
  bool comes(std::size_t step) const { return step < size_ && step <= ring_.reach_[OwnerAt(step)]; }
  bool goes_on(std::size_t step) const { return step < size_ && step < ring_.reach_[OwnerAt(step)]; }
  int next() const { return static_cast<int>((rank_ + 1) % size_); }
  int previous() const { return static_cast<int>((rank_ + size_ - 1) % size_); }
  // Where gradients go after a step, which comes(), in which this rank adds to them: with their keys, or home.
  int next_of_gradients(std::size_t step) const { return goes_on(step) ? next() : static_cast<int>(OwnerAt(step)); }
  // The rank that is the last to have this rank's own block, if it has it in this step.
  std::optional<int> last_reader(std::size_t step) const {
    if (!is_shared() || step != ring_.reach_[rank_]) return std::nullopt;
    return static_cast<int>((rank_ + step) % size_);
  }
  std::vector<AttentionBlock> blocks(std::size_t step) const {
    return visible_blocks(ring_.mask_, ring_.chunks_[rank_], ring_.chunks_[OwnerAt(step)]);
  }
  // The keys and values of a step, or their gradients, in memory that is made when it is first needed, for the rank
  // that has most of them.
  Tensor in(Buffer& memory, std::size_t step, tuttiDataType_t dtype) const {
    if (memory.tensor().data == nullptr) {
      memory = Buffer(ring_.attention_.compute(), OfPairs(qkv_, std::ranges::max(ring_.rows_)), dtype);
    }
    Tensor block = memory;
    block.shape[0] = ring_.rows_[OwnerAt(step)];
    return block;
  }

 private:
  std::size_t OwnerAt(std::size_t step) const { return (rank_ + size_ - step) % size_; }

  const RingAttention& ring_;
  const Tensor& qkv_;
  std::size_t size_, rank_;
};

RingAttention::RingAttention(ProcessGroup& group, AttentionCompute& attention, SequencePlacement placement,
                             const std::vector<std::size_t>& cu_seqlens, AttentionMask mask)
    : group_(group), attention_(attention), mask_(mask) {
  const auto size = static_cast<std::size_t>(group.size());
  for (std::size_t rank = 0; rank < size; ++rank) chunks_.push_back(chunks_of(placement, cu_seqlens, rank, size));
  for (std::size_t rank = 0; rank < size; ++rank) {
    const auto& chunks = chunks_[rank];
    rows_.push_back(chunks.empty() ? 0 : chunks.back().first_row + chunks.back().rows);
    reach_.push_back(reach_of_keys(mask, chunks_, rank));
  }
}

void RingAttention::forward(const Tensor& qkv, const Tensor& out, const Tensor& lse) {
  RequireMixed("qkv", qkv, rows());
  Require("out", out, OfHeads(qkv, qkv.shape[kWidth]), qkv.dtype);
  Require("lse", lse, OfHeads(qkv, 1), tuttiFloat32);
  auto& compute = attention_.compute();
  const Route route(*this, qkv);
  const Buffer sums(compute, lse.shape);
  Buffer wide;  // float32, if `out` is not
  if (out.dtype != tuttiFloat32) wide = Buffer(compute, out.shape);
  const Tensor weighted = out.dtype == tuttiFloat32 ? out : wide.tensor();
  const SoftmaxState state{weighted, lse, sums.tensor()};
  Buffer here, arriving;  // keys and values
  OverlappedCommunication passing(compute, group_);

  for (const Tensor& each : {weighted, lse, sums.tensor()}) compute.zero(each);
  if (route.is_shared()) PackKeysAndValues(compute, qkv, route.in(here, 0, qkv.dtype));
  for (std::size_t step = 0; step < route.size(); ++step) {
    std::vector<P2POp> operations;
    if (route.goes_on(step)) operations.push_back({P2P::isend, route.in(here, step, qkv.dtype), route.next()});
    if (route.comes(step + 1)) {
      operations.push_back({P2P::irecv, route.in(arriving, step + 1, qkv.dtype), route.previous()});
    }
    if (!operations.empty()) batch_isend_irecv(group_, operations, passing.fork());
    for (const auto& block : route.blocks(step)) {
      attention_.attend(InputsOf(block, qkv, step == 0 ? qkv : here.tensor()),
                        {QueriesOf(block, state.out), QueriesOf(block, state.maxima), QueriesOf(block, state.sums)});
    }
    passing.join();
    std::swap(here, arriving);
  }
  attention_.finish(state, out);
}

void RingAttention::backward(const Tensor& qkv, const Tensor& out, const Tensor& lse, const Tensor& grad_out,
                             const Tensor& grad_qkv) {
  RequireMixed("qkv", qkv, rows());
  Require("grad_qkv", grad_qkv, qkv.shape, qkv.dtype);
  for (const auto& [what, tensor] : {std::pair{"out", &out}, std::pair{"grad_out", &grad_out}}) {
    Require(what, *tensor, OfHeads(qkv, qkv.shape[kWidth]), qkv.dtype);
  }
  Require("lse", lse, OfHeads(qkv, 1), tuttiFloat32);
  auto& compute = attention_.compute();
  const Route route(*this, qkv);
  const Buffer delta(compute, lse.shape);
  // Gradients are added up in place. If that is not float32, or other ranks add to them, too, a tensor of their own
  // takes the sums.
  const bool rounds = qkv.dtype != tuttiFloat32;
  const auto summed = [&](bool apart, const Shape& shape) {
    Buffer sum;
    if (apart) {
      sum = Buffer(compute, shape);
      compute.zero(sum);
    }
    return sum;
  };
  const Buffer of_queries = summed(rounds, OfHeads(qkv, qkv.shape[kWidth]));
  const Buffer own = summed(rounds || route.is_shared(), OfPairs(qkv, qkv.shape[0]));  // of this rank's keys and values
  const HeadRows grad_q = rounds ? HeadRows(of_queries.tensor()) : queries_of(grad_qkv);
  const auto add = [&](std::size_t step, const Tensor& pairs, const Tensor& grads) {
    for (const auto& block : route.blocks(step)) {
      attention_.attend_backward(InputsOf(block, qkv, pairs), QueriesOf(block, grad_out), QueriesOf(block, lse),
                                 QueriesOf(block, delta.tensor()), QueriesOf(block, grad_q),
                                 KeysOf(block, keys_of(grads)), KeysOf(block, values_of(grads)));
    }
  };

  Buffer here, arriving;  // keys and values
  // Gradients of keys and values. mine: of those here, by this rank. leaving: of those here before, by all that have
  // seen them. coming: the same, on their way to this rank. home: of this rank's own, by all others.
  Buffer mine, leaving, coming, home;
  const auto in = [&](Buffer& gradients, std::size_t step) { return route.in(gradients, step, tuttiFloat32); };
  OverlappedCommunication passing(compute, group_);

  attention_.attend_delta(out, grad_out, delta.tensor());
  if (!rounds) compute.zero(grad_qkv);
  if (route.is_shared()) PackKeysAndValues(compute, qkv, route.in(here, 0, qkv.dtype));
  for (std::size_t step = 0; step <= route.size(); ++step) {
    std::vector<P2POp> operations;
    if (route.goes_on(step)) operations.push_back({P2P::isend, route.in(here, step, qkv.dtype), route.next()});
    if (route.comes(step + 1)) {
      operations.push_back({P2P::irecv, route.in(arriving, step + 1, qkv.dtype), route.previous()});
    }
    // A step behind keys and values, from the second one on: no rank adds to the gradients before the first.
    const bool follows = step >= 2;
    const bool sums_come = follows && route.comes(step);
    const auto last_reader = follows ? route.last_reader(step - 1) : std::nullopt;
    if (follows && route.comes(step - 1)) {
      operations.push_back({P2P::isend, in(leaving, step - 1), route.next_of_gradients(step - 1)});
    }
    if (sums_come) operations.push_back({P2P::irecv, in(coming, step), route.previous()});
    if (last_reader) operations.push_back({P2P::irecv, in(home, 0), *last_reader});
    if (!operations.empty()) batch_isend_irecv(group_, operations, passing.fork());

    if (step == 0) {
      add(step, qkv, own.tensor().data == nullptr ? grad_qkv : own.tensor());
    } else if (route.comes(step)) {
      const Tensor sum = in(mine, step);
      compute.zero(sum);
      add(step, here, sum);
    }
    passing.join();
    if (sums_come) compute.copy(in(coming, step), in(mine, step), true);
    if (last_reader) compute.copy(in(home, 0), own, true);
    std::swap(mine, leaving);
    std::swap(here, arriving);
  }

  const std::size_t width = qkv.shape[kWidth], queries = GroupSizeOf(qkv);
  const Tensor to = GroupMatrix(grad_qkv, qkv, qkv.shape[kRingParts]);
  if (of_queries.tensor().data != nullptr) {
    compute.copy_columns(GroupMatrix(of_queries, qkv, queries), 0, to, 0, queries * width);
  }
  if (own.tensor().data != nullptr) {
    compute.copy_columns(GroupMatrix(own, qkv, kPair), 0, to, queries * width, kPair * width);
  }
}

}  // namespace tutti::parallel
