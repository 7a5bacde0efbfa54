#include "tutti/parallel/ring_attention.h"

#include <fmt/format.h>

#include <utility>

#include "parallel/joining.h"
#include "tutti/parallel/error.h"
#include "tutti/parallel/p2p_communication.h"

namespace tutti::parallel {
namespace {

enum Mixed : std::size_t { kQueries, kKeys, kValues, kMixed };  // of qkv
enum Pair : std::size_t { kPairKeys, kPairValues, kPair };      // of what goes round

void RequireMixed(const char* what, const Tensor& qkv) {
  constexpr std::size_t kDimensions = 5;
  require_type(what, qkv, tuttiFloat32);
  if (qkv.shape.size() == kDimensions && qkv.shape[3] == kMixed) return;
  throw Error(tuttiInvalidArgument, fmt::format("{} has shape {}, but [rows, batch, heads, 3, width] is expected", what,
                                                describe(qkv.shape)));
}

// [rows, batch, heads, ..].
Shape Like(const Tensor& qkv, std::initializer_list<std::size_t> rest) {
  Shape shape(qkv.shape.begin(), qkv.shape.begin() + 3);
  shape.insert(shape.end(), rest);
  return shape;
}

void RequireFloats(const char* what, const Tensor& tensor, const Shape& expected) {
  require_type(what, tensor, tuttiFloat32);
  require_shape(what, tensor, expected);
}

// A row for each head of each position of each sample.
Tensor HeadMatrix(const Tensor& tensor) {
  const std::size_t columns = tensor.shape[3] * tensor.shape[4];
  return {tensor.data, {columns == 0 ? 0 : tensor.count() / columns, columns}, tensor.dtype};
}

struct KeysAndValues {
  HeadRows k, v;
};
KeysAndValues OfMixed(const Tensor& qkv) { return {{qkv, kKeys}, {qkv, kValues}}; }
KeysAndValues OfPair(const Tensor& pair) { return {{pair, kPairKeys}, {pair, kPairValues}}; }

// What of them a block has.
HeadRows QueriesOf(const AttentionBlock& block, const HeadRows& rows) {
  return rows.range(block.first_query, block.queries);
}
HeadRows KeysOf(const AttentionBlock& block, const HeadRows& rows) { return rows.range(block.first_key, block.keys); }
AttentionInputs InputsOf(const AttentionBlock& block, const Tensor& qkv, const KeysAndValues& from) {
  return {QueriesOf(block, {qkv, kQueries}), KeysOf(block, from.k), KeysOf(block, from.v), block.causal};
}

// sum += more.
void AddTo(Compute& compute, const Tensor& sum, const Tensor& more) {
  compute.add_rows(Tensor(more.floats(), {1, more.count()}), Tensor(sum.floats(), {more.count()}));
}

}  // namespace

Buffer RingAttention::PackedKeysAndValues(const Tensor& qkv) {
  const std::size_t width = qkv.shape[4];
  Buffer packed(attention_.compute(), Like(qkv, {kPair, width}));
  attention_.compute().copy_columns(HeadMatrix(qkv), kKeys * width, HeadMatrix(packed), 0, kPair * width);
  return packed;
}

std::optional<AttentionBlock> RingAttention::BlockOf(std::size_t step, std::size_t rows) const {
  const auto size = static_cast<std::size_t>(group_.size()), rank = static_cast<std::size_t>(group_.rank());
  return visible_block(placement_, causal_, rows, rank, (rank + size - step) % size);
}

void RingAttention::Start(const std::vector<Pass>& passes) {
  const int size = group_.size(), next = (group_.rank() + 1) % size, previous = (group_.rank() + size - 1) % size;
  std::vector<P2POp> operations;
  for (const auto& [send, receive] : passes) {
    operations.push_back({P2P::isend, send, next});
    operations.push_back({P2P::irecv, receive, previous});
  }
  attention_.compute().fork_communication();
  batch_isend_irecv(group_, operations, attention_.compute().communication_stream());
}

void RingAttention::forward(const Tensor& qkv, const Tensor& out, const Tensor& lse) {
  RequireMixed("qkv", qkv);
  RequireFloats("out", out, Like(qkv, {qkv.shape[4]}));
  RequireFloats("lse", lse, Like(qkv, {1}));
  auto& compute = attention_.compute();
  const auto size = static_cast<std::size_t>(group_.size());
  const Buffer sums(compute, lse.shape);
  for (const Tensor& state : {out, lse, sums.tensor()}) compute.zero(state);

  Buffer here, arriving;  // keys and values
  if (size > 1) here = PackedKeysAndValues(qkv);
  for (std::size_t step = 0; step < size; ++step) {
    const bool passes = step + 1 < size;
    if (passes) {
      if (arriving.tensor().data == nullptr) arriving = Buffer(compute, here.tensor().shape);
      Start({{here, arriving}});
    }
    if (const auto block = BlockOf(step, qkv.shape[0])) {
      attention_.attend(InputsOf(*block, qkv, step == 0 ? OfMixed(qkv) : OfPair(here)),
                        {QueriesOf(*block, out), QueriesOf(*block, lse), QueriesOf(*block, sums.tensor())});
    }
    if (passes) join_communication(compute, {&group_});
    std::swap(here, arriving);
  }
  attention_.finish({out, lse, sums.tensor()});
}

void RingAttention::backward(const Tensor& qkv, const Tensor& out, const Tensor& lse, const Tensor& grad_out,
                             const Tensor& grad_qkv) {
  RequireMixed("qkv", qkv);
  RequireFloats("grad_qkv", grad_qkv, qkv.shape);
  for (const auto& [what, tensor] : {std::pair{"out", &out}, std::pair{"grad_out", &grad_out}}) {
    RequireFloats(what, *tensor, Like(qkv, {qkv.shape[4]}));
  }
  RequireFloats("lse", lse, Like(qkv, {1}));
  auto& compute = attention_.compute();
  const auto size = static_cast<std::size_t>(group_.size());
  const Buffer delta(compute, lse.shape);
  attention_.attend_delta(out, grad_out, delta.tensor());
  compute.zero(grad_qkv);
  const auto add = [&](std::size_t step, const KeysAndValues& from, const KeysAndValues& grads) {
    const auto block = BlockOf(step, qkv.shape[0]);
    if (!block) return;
    attention_.attend_backward(InputsOf(*block, qkv, from), QueriesOf(*block, grad_out), QueriesOf(*block, lse),
                               QueriesOf(*block, delta.tensor()), QueriesOf(*block, {grad_qkv, kQueries}),
                               KeysOf(*block, grads.k), KeysOf(*block, grads.v));
  };
  if (size == 1) return add(0, OfMixed(qkv), OfMixed(grad_qkv));

  Buffer here = PackedKeysAndValues(qkv);
  const auto make = [&] { return Buffer(compute, here.tensor().shape); };
  Buffer arriving = make();
  // Gradients of keys and values: of this rank's own, by itself; of those that are here, by this rank; of those that
  // were here before, by all ranks that have seen them; the same on their way to this rank.
  const Buffer own = make();
  Buffer mine = make(), leaving = make(), coming = make();
  for (std::size_t step = 0; step < size; ++step) {
    std::vector<Pass> passes;
    if (step + 1 < size) passes.push_back({here, arriving});
    if (step >= 2) passes.push_back({leaving, coming});
    if (!passes.empty()) Start(passes);
    const Buffer& grads = step == 0 ? own : mine;
    compute.zero(grads);
    add(step, OfPair(here), OfPair(grads));
    if (!passes.empty()) join_communication(compute, {&group_});
    if (step >= 2) AddTo(compute, mine, coming);
    if (step >= 1) std::swap(mine, leaving);
    std::swap(here, arriving);
  }
  Start({{leaving, coming}});
  join_communication(compute, {&group_});
  AddTo(compute, own, coming);
  const std::size_t width = qkv.shape[4];
  compute.copy_columns(HeadMatrix(own), 0, HeadMatrix(grad_qkv), kKeys * width, kPair * width);
}

}  // namespace tutti::parallel
