// Attention over a split sequence against plain attention: output and gradients, for Ulysses, rings and both.
#include "tutti/parallel/context_parallel.h"

#include <fmt/format.h>

#include "parallel/context/attention_testing.h"
#include "testing/ranks.h"
#include "tutti/parallel/mixed_heads.h"
#include "tutti/parallel/parallel_state.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

constexpr std::size_t kBatch = 3, kWidth = 5;
// Units in the last place of a tensor's largest value, in float32: the largest difference seen is 4.1. Sums have up to
// 48 terms, and each further block multiplies them by one more rounded exponential.
constexpr double kUlps = 8;
// In bfloat16 only the output and each gradient are rounded, once - twice where keys are copied: the largest difference
// seen is 0.7. Sums that were rounded at every rank would differ by more.
constexpr double kBFloat16Ulps = 1;

struct Degrees {
  int ulysses, ring;
  std::size_t heads, kv_heads;

  bool copies_keys() const { return static_cast<std::size_t>(ulysses) > kv_heads; }
};

class ContextParallel : public ::testing::TestWithParam<Degrees> {};
INSTANTIATE_TEST_SUITE_P(Over, ContextParallel,
                         ::testing::Values(Degrees{1, 1, 2, 2}, Degrees{2, 1, 2, 2}, Degrees{3, 1, 6, 6},
                                           Degrees{4, 1, 4, 4}, Degrees{5, 1, 5, 5}, Degrees{8, 1, 8, 8},
                                           Degrees{1, 2, 1, 1}, Degrees{1, 3, 2, 2}, Degrees{1, 4, 1, 1},
                                           Degrees{1, 5, 1, 1}, Degrees{1, 6, 1, 1}, Degrees{1, 7, 1, 1},
                                           Degrees{1, 8, 2, 2}, Degrees{2, 2, 4, 4}, Degrees{3, 2, 3, 3},
                                           Degrees{2, 3, 2, 2}, Degrees{4, 2, 4, 4}, Degrees{2, 4, 6, 6},
                                           // Groups of heads, and fewer groups than ranks that exchange heads.
                                           Degrees{1, 1, 4, 2}, Degrees{2, 1, 4, 2}, Degrees{2, 1, 8, 4},
                                           Degrees{2, 1, 4, 1}, Degrees{4, 1, 8, 2}, Degrees{8, 1, 8, 1},
                                           Degrees{1, 2, 4, 1}, Degrees{1, 2, 4, 2}, Degrees{1, 3, 4, 1},
                                           Degrees{1, 4, 4, 2}, Degrees{1, 5, 2, 1}, Degrees{1, 6, 2, 1},
                                           Degrees{1, 7, 2, 1}, Degrees{1, 8, 4, 2}, Degrees{2, 2, 4, 2},
                                           Degrees{2, 2, 4, 1}, Degrees{4, 2, 8, 2}, Degrees{2, 3, 6, 1}),
                         [](const auto& info) {
                           const auto& degrees = info.param;
                           return fmt::format("ulysses_{}_ring_{}_heads_{}_kv_{}", degrees.ulysses, degrees.ring,
                                              degrees.heads, degrees.kv_heads);
                         });

std::size_t SequenceOf(const Degrees& degrees) {
  const auto ranks = static_cast<std::size_t>(degrees.ulysses * degrees.ring);
  return 2 * ranks * (ranks < 4 ? 5 : 3);
}

// No mask; a causal one; windows that end in a chunk, and that reach over several.
std::vector<AttentionMask> MasksOf(const Degrees& degrees) {
  const std::size_t rows = SequenceOf(degrees) / static_cast<std::size_t>(degrees.ring);
  return {{}, {true}, {true, 2}, {true, rows + 2}};
}

ContextParallelConfig ConfigOf(const Degrees& degrees, const AttentionMask& mask, SequencePlacement placement,
                               tuttiDataType_t dtype) {
  return {.sequence = SequenceOf(degrees),
          .batch = kBatch,
          .heads = degrees.heads,
          .width = kWidth,
          .causal = mask.causal,
          .placement = placement,
          .kv_heads = degrees.kv_heads,
          .window = mask.window,
          .dtype = dtype};
}

Shape MixedShapeOf(const Degrees& degrees, std::size_t positions) {
  return mixed_shape(positions, kBatch, degrees.heads, degrees.kv_heads, kWidth);
}

struct Result {
  std::vector<float> out, grad_qkv;
};

Result ForwardAndBackward(ContextParallelAttention& attention, const Values& whole, const Values& whole_grad_out,
                          tuttiDataType_t dtype) {
  Typed qkv(whole.Rows(attention.positions()), dtype), grad_out(whole_grad_out.Rows(attention.positions()), dtype);
  Typed out(Values(grad_out.values().shape, 7), dtype);  // whatever was there is overwritten
  Typed grad_qkv(Values(qkv.values().shape, 7), dtype);
  const auto saved = attention.forward(qkv, out);
  attention.backward(qkv, out, saved, grad_out, grad_qkv);
  return {out.values().values, grad_qkv.values().values};
}

// The queries of `mixed`, without keys and values.
std::vector<float> QueriesIn(const Degrees& degrees, const std::vector<float>& mixed) {
  const std::size_t queries = degrees.heads / degrees.kv_heads * kWidth, group = queries + 2 * kWidth;
  std::vector<float> some;
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    if (i % group < queries) some.push_back(mixed[i]);
  }
  return some;
}

TEST_P(ContextParallel, IsPlainAttention) {
  const auto body = [](Rank& self) {
    const auto degrees = GetParam();
    const auto comm = self.Join();
    ProcessGroup world(comm);
    DeviceMesh mesh(world, MeshLayout({{"ring", degrees.ring}, {"ulysses", degrees.ulysses}}));
    ProcessGroup alone(world, "alone", {self.rank()}, TUTTI_CONFIG_INITIALIZER);
    HostCompute compute;
    ElementwiseAttention on(compute);
    const std::size_t sequence = SequenceOf(degrees);
    for (const auto dtype : {tuttiFloat32, tuttiBfloat16}) {
      const Values qkv = Typed(Values::Random(MixedShapeOf(degrees, sequence), 1), dtype).values();
      const Values grad_out = Typed(Values::Random({sequence, kBatch, degrees.heads, kWidth}, 2), dtype).values();
      const double limit = dtype == tuttiBfloat16 ? kBFloat16Ulps : kUlps;
      for (const auto& mask : MasksOf(degrees)) {
        const PlainAttention wanted(qkv, grad_out, mask);
        for (const auto placement : {SequencePlacement::zigzag, SequencePlacement::contiguous}) {
          SCOPED_TRACE(fmt::format("{} causal {} window {} zigzag {}", name_of(dtype), mask.causal, mask.window,
                                   placement == SequencePlacement::zigzag));
          const auto config = ConfigOf(degrees, mask, placement, dtype);
          ContextParallelAttention split(mesh.group("ulysses"), mesh.group("ring"), on, config);
          const auto got = ForwardAndBackward(split, qkv, grad_out, dtype);
          EXPECT_LE(UlpsApart(got.out, RowsOf(wanted.out, sequence, split.positions()), dtype), limit);
          EXPECT_LE(UlpsApart(got.grad_qkv, RowsOf(wanted.grad_qkv, sequence, split.positions()), dtype), limit);
          if (degrees.ring > 1) continue;
          // Each head is computed whole: every bit equals one rank's, except in gradients that are sums over ranks.
          ContextParallelAttention whole(alone, alone, on, config);
          const auto one = ForwardAndBackward(whole, qkv, grad_out, dtype);
          const auto grad_qkv = Values(qkv.shape, one.grad_qkv).Rows(split.positions()).values;
          EXPECT_EQ(got.out, Values(grad_out.shape, one.out).Rows(split.positions()).values);
          EXPECT_EQ(QueriesIn(degrees, got.grad_qkv), QueriesIn(degrees, grad_qkv));
          if (!degrees.copies_keys()) {
            EXPECT_EQ(got.grad_qkv, grad_qkv);
          }
        }
      }
    }
    self.Meet();
  };
  for (const bool threads : {false, true}) {
    RunRanks(GetParam().ulysses * GetParam().ring, body, {.threads = threads});
  }
}

// Hops of the keys of a ring's rank `owner`: to all other ranks, or to later ones, or to later ones with its positions
// in their window. The rank `on` places later begins (on - 1) * rows + 1 positions after the owner's last.
std::size_t HopsOf(std::size_t owner, std::size_t ring, std::size_t rows, const AttentionMask& mask) {
  std::size_t hops = 0;
  for (std::size_t on = 1; on < ring; ++on) {
    const bool is_behind = owner + on < ring, is_near = mask.window == 0 || (on - 1) * rows + 1 < mask.window;
    if (!mask.causal || (is_behind && is_near)) hops = on;
  }
  return hops;
}

// Per rank and pass. Ulysses: all-to-alls of queries, keys, values and output. Ring: blocks of keys and values, and of
// their gradients.
TEST_P(ContextParallel, SendsThePapersBytes) {
  const auto body = [](Rank& self) {
    const auto degrees = GetParam();
    const auto comm = self.Join();
    ProcessGroup world(comm);
    DeviceMesh mesh(world, MeshLayout({{"ring", degrees.ring}, {"ulysses", degrees.ulysses}}));
    HostCompute compute;
    ElementwiseAttention on(compute);
    const auto ulysses = static_cast<std::size_t>(degrees.ulysses), ring = static_cast<std::size_t>(degrees.ring);
    const auto ring_rank = static_cast<std::size_t>(mesh.group("ring").rank());
    auto& ulysses_group = mesh.group("ulysses");
    auto& ring_group = mesh.group("ring");
    const auto expect_sent = [&](const AttentionMask& mask, SequencePlacement placement, tuttiDataType_t dtype) {
      SCOPED_TRACE(fmt::format("{} causal {} window {} zigzag {}", name_of(dtype), mask.causal, mask.window,
                               placement == SequencePlacement::zigzag));
      ContextParallelAttention attention(ulysses_group, ring_group, on, ConfigOf(degrees, mask, placement, dtype));
      Typed qkv(Values::Random(MixedShapeOf(degrees, attention.rows()), 3), dtype), grad_qkv = qkv;
      Typed out(Values({attention.rows(), kBatch, degrees.heads, kWidth}), dtype), grad_out = out;

      const std::size_t rows = attention.rows() * kBatch * kWidth;  // of all samples, for a head
      const std::size_t sent_kv_heads = std::max(degrees.kv_heads, ulysses > 1 ? ulysses : 1);
      const std::size_t exchanged =
          (2 * degrees.heads + 2 * sent_kv_heads) * rows * size_of(dtype) * (ulysses - 1) / ulysses;
      // A rank of the ring has whole rows, and fewer heads.
      const std::size_t pair = 2 * sent_kv_heads * rows;
      // Owners' keys that this rank passes on to others, and gradients that it has added to.
      std::size_t keys = 0, grads = 0;
      for (std::size_t owner = 0; owner < ring; ++owner) {
        const bool all = placement == SequencePlacement::zigzag && mask.window == 0;
        const std::size_t step = (ring_rank + ring - owner) % ring;
        const std::size_t hops = all ? ring - 1 : HopsOf(owner, ring, attention.rows() * ulysses, mask);
        keys += step < hops ? 1 : 0;
        grads += step >= 1 && step <= hops ? 1 : 0;
      }
      auto by_ulysses = ulysses_group.bytes_sent(), by_ring = ring_group.bytes_sent();
      const auto expect = [&](std::size_t more_by_ulysses, std::size_t more_by_ring) {
        EXPECT_EQ(ulysses_group.bytes_sent(), by_ulysses += more_by_ulysses);
        EXPECT_EQ(ring_group.bytes_sent(), by_ring += more_by_ring);
      };
      const auto saved = attention.forward(qkv, out);
      expect(exchanged, keys * pair * size_of(dtype));
      attention.backward(qkv, out, saved, grad_out, grad_qkv);
      expect(exchanged, keys * pair * size_of(dtype) + grads * pair * sizeof(float));
    };
    for (const auto dtype : {tuttiFloat32, tuttiBfloat16}) {
      for (const auto& mask : MasksOf(degrees)) {
        expect_sent(mask, SequencePlacement::contiguous, dtype);
        if (mask.window == 0) expect_sent(mask, SequencePlacement::zigzag, dtype);
      }
    }
    self.Meet();
  };
  for (const bool threads : {false, true}) {
    RunRanks(GetParam().ulysses * GetParam().ring, body, {.threads = threads});
  }
}

TEST(ContextParallelPage, IsTwoCallsALayer) {
  RunRanks(4, [](Rank& self) {
    const auto comm = self.Join();
    HostCompute compute;
    Values qkv({4, 2, 6, 3, 8}), out({4, 2, 6, 8}), grad_out(out.shape), grad_qkv(qkv.shape);
    // As on the documentation's page.
    const auto state = initialize_model_parallel(comm, {.context_parallel_size = 4, .ulysses_size = 2});
    ElementwiseAttention processor(compute);
    ContextParallelAttention attention(state->get_ulysses_parallel_group(), state->get_ring_parallel_group(), processor,
                                       {.sequence = 16, .batch = 2, .heads = 6, .width = 8});
    const auto saved = attention.forward(qkv, out);
    attention.backward(qkv, out, saved, grad_out, grad_qkv);
    EXPECT_EQ(attention.positions(), (std::vector<std::vector<std::size_t>>{
                                         {0, 1, 2, 3}, {12, 13, 14, 15}, {4, 5, 6, 7}, {8, 9, 10, 11}})[self.rank()]);
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::parallel
