// Attention over a split sequence against plain attention: output and gradients, for Ulysses, rings and both.
#include "tutti/parallel/context_parallel.h"

#include <fmt/format.h>

#include "parallel/attention_testing.h"
#include "tests/ranks.h"
#include "tutti/parallel/parallel_state.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

constexpr std::size_t kBatch = 3, kWidth = 5;
// Units in the last place of a tensor's largest value, in float32: the largest difference seen is 4.1. Sums have up to
// 48 terms, and each block that comes multiplies them by one more rounded exponential.
constexpr double kUlps = 8;

struct Degrees {
  int ulysses, ring;
  std::size_t heads;
};

class ContextParallel : public ::testing::TestWithParam<Degrees> {};
INSTANTIATE_TEST_SUITE_P(Over, ContextParallel,
                         ::testing::Values(Degrees{1, 1, 2}, Degrees{2, 1, 2}, Degrees{3, 1, 6}, Degrees{4, 1, 4},
                                           Degrees{5, 1, 5}, Degrees{8, 1, 8}, Degrees{1, 2, 1}, Degrees{1, 3, 2},
                                           Degrees{1, 4, 1}, Degrees{1, 5, 1}, Degrees{1, 6, 1}, Degrees{1, 7, 1},
                                           Degrees{1, 8, 2}, Degrees{2, 2, 4}, Degrees{3, 2, 3}, Degrees{2, 3, 2},
                                           Degrees{4, 2, 4}, Degrees{2, 4, 6}),
                         [](const auto& info) {
                           return fmt::format("ulysses_{}_ring_{}", info.param.ulysses, info.param.ring);
                         });

std::size_t SequenceOf(const Degrees& degrees) {
  const auto ranks = static_cast<std::size_t>(degrees.ulysses * degrees.ring);
  return 2 * ranks * (ranks < 4 ? 5 : 3);
}

struct Result {
  std::vector<float> out, grad_qkv;
};

Result ForwardAndBackward(ContextParallelAttention& attention, const Values& whole, const Values& whole_grad_out) {
  Values qkv = whole.Rows(attention.positions()), grad_out = whole_grad_out.Rows(attention.positions());
  Values out(grad_out.shape), grad_qkv(qkv.shape, 7);  // whatever was there is overwritten
  const auto saved = attention.forward(qkv, out);
  attention.backward(qkv, out, saved, grad_out, grad_qkv);
  return {out.values, grad_qkv.values};
}

std::vector<double> RowsOf(const std::vector<double>& values, std::size_t sequence,
                           const std::vector<std::size_t>& which) {
  const std::size_t size = values.size() / sequence;
  std::vector<double> some;
  for (const auto row : which) {
    for (std::size_t i = 0; i < size; ++i) some.push_back(values[row * size + i]);
  }
  return some;
}

TEST_P(ContextParallel, IsPlainAttention) {
  RunRanks(GetParam().ulysses * GetParam().ring, [](Rank& self) {
    const auto degrees = GetParam();
    const auto comm = self.Join();
    ProcessGroup world(comm);
    DeviceMesh mesh(world, MeshLayout({{"ring", degrees.ring}, {"ulysses", degrees.ulysses}}));
    ProcessGroup alone(world, "alone", {self.rank()}, TUTTI_CONFIG_INITIALIZER);
    HostCompute compute;
    ElementwiseAttention on(compute);
    const std::size_t sequence = SequenceOf(degrees);
    const Values qkv = Values::Random({sequence, kBatch, degrees.heads, 3, kWidth}, 1);
    const Values grad_out = Values::Random({sequence, kBatch, degrees.heads, kWidth}, 2);
    for (const bool causal : {false, true}) {
      const PlainAttention wanted(qkv, grad_out, causal);
      for (const auto placement : {SequencePlacement::zigzag, SequencePlacement::contiguous}) {
        SCOPED_TRACE(fmt::format("causal {} zigzag {}", causal, placement == SequencePlacement::zigzag));
        const ContextParallelConfig config{.sequence = sequence,
                                           .batch = kBatch,
                                           .heads = degrees.heads,
                                           .width = kWidth,
                                           .causal = causal,
                                           .placement = placement};
        ContextParallelAttention split(mesh.group("ulysses"), mesh.group("ring"), on, config);
        const auto got = ForwardAndBackward(split, qkv, grad_out);
        EXPECT_LE(UlpsApart(got.out, RowsOf(wanted.out, sequence, split.positions())), kUlps);
        EXPECT_LE(UlpsApart(got.grad_qkv, RowsOf(wanted.grad_qkv, sequence, split.positions())), kUlps);
        if (degrees.ring > 1) continue;
        // Each head is computed whole: no bit differs from one rank's.
        ContextParallelAttention whole(alone, alone, on, config);
        const auto one = ForwardAndBackward(whole, qkv, grad_out);
        EXPECT_EQ(got.out, Values(grad_out.shape, one.out).Rows(split.positions()).values);
        EXPECT_EQ(got.grad_qkv, Values(qkv.shape, one.grad_qkv).Rows(split.positions()).values);
      }
    }
    self.Meet();
  });
}

// Per rank and pass. Ulysses: all-to-alls of queries, keys, values and output. Ring: blocks of keys and values, and of
// their gradients.
TEST_P(ContextParallel, SendsThePapersBytes) {
  RunRanks(GetParam().ulysses * GetParam().ring, [](Rank& self) {
    const auto degrees = GetParam();
    const auto comm = self.Join();
    ProcessGroup world(comm);
    DeviceMesh mesh(world, MeshLayout({{"ring", degrees.ring}, {"ulysses", degrees.ulysses}}));
    HostCompute compute;
    ElementwiseAttention on(compute);
    const std::size_t sequence = SequenceOf(degrees);
    ContextParallelAttention attention(
        mesh.group("ulysses"), mesh.group("ring"), on,
        {.sequence = sequence, .batch = kBatch, .heads = degrees.heads, .width = kWidth});
    Values qkv = Values::Random({attention.rows(), kBatch, degrees.heads, 3, kWidth}, 3), grad_qkv(qkv.shape);
    Values out({attention.rows(), kBatch, degrees.heads, kWidth}), grad_out(out.shape);

    const auto ulysses = static_cast<std::uint64_t>(degrees.ulysses), ring = static_cast<std::uint64_t>(degrees.ring);
    const std::uint64_t part = out.values.size() * sizeof(float);                      // N h / P
    const std::uint64_t exchanged = 4 * part * (ulysses - 1) / ulysses, block = part;  // whole rows, fewer heads
    std::uint64_t by_ulysses = mesh.group("ulysses").bytes_sent(), by_ring = mesh.group("ring").bytes_sent();
    const auto expect = [&](std::uint64_t more_by_ulysses, std::uint64_t more_by_ring) {
      EXPECT_EQ(mesh.group("ulysses").bytes_sent(), by_ulysses += more_by_ulysses);
      EXPECT_EQ(mesh.group("ring").bytes_sent(), by_ring += more_by_ring);
    };
    const auto saved = attention.forward(qkv, out);
    expect(exchanged, 2 * (ring - 1) * block);
    attention.backward(qkv, out, saved, grad_out, grad_qkv);
    expect(exchanged, 4 * (ring - 1) * block);
    self.Meet();
  });
}

TEST(ContextParallelPage, IsTwoCallsALayer) {
  RunRanks(4, [](Rank& self) {
    const auto comm = self.Join();
    HostCompute compute;
    Values qkv({4, 2, 6, 3, 8}), out({4, 2, 6, 8}), grad_out(out.shape), grad_qkv(qkv.shape);
    // The page's.
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
