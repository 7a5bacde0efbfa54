// Attention block by block against the same in doubles and in one piece.
#include "tutti/parallel/attention_compute.h"

#include "parallel/attention_testing.h"

namespace tutti::parallel {
namespace {

constexpr std::size_t kSequence = 17, kBatch = 3, kHeads = 2, kWidth = 5;
// Units in the last place of a tensor's largest value, in float32: the largest difference seen is 1.8.
constexpr double kUlps = 4;

struct Result {
  Values out{{kSequence, kBatch, kHeads, kWidth}};
  Values lse{{kSequence, kBatch, kHeads, 1}};
};

// Keys in blocks that end there.
Result Attend(Values& qkv, const std::vector<std::size_t>& ends) {
  HostCompute compute;
  ElementwiseAttention attention(compute);
  Result result;
  Values sums(result.lse.shape);
  const SoftmaxState state{Tensor(result.out), Tensor(result.lse), Tensor(sums)};
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    attention.attend({{qkv, 0}, HeadRows(qkv, 1).range(begin, end - begin), HeadRows(qkv, 2).range(begin, end - begin)},
                     state);
    begin = end;
  }
  attention.finish(state);
  return result;
}

TEST(AttentionCompute, HasThePapersOutputAndGradients) {
  for (const bool causal : {false, true}) {
    Values qkv = Values::Random({kSequence, kBatch, kHeads, 3, kWidth}, 1);
    Values grad_out = Values::Random({kSequence, kBatch, kHeads, kWidth}, 2);
    const PlainAttention wanted(qkv, grad_out, causal);
    HostCompute compute;
    ElementwiseAttention attention(compute);
    Result result;
    Values sums(result.lse.shape), delta(result.lse.shape), grad_qkv(qkv.shape);
    const AttentionInputs inputs{{qkv, 0}, {qkv, 1}, {qkv, 2}, causal};
    const SoftmaxState state{Tensor(result.out), Tensor(result.lse), Tensor(sums)};
    attention.attend(inputs, state);
    attention.finish(state);
    attention.attend_delta(Tensor(result.out), Tensor(grad_out), Tensor(delta));
    attention.attend_backward(inputs, Tensor(grad_out), Tensor(result.lse), Tensor(delta), {grad_qkv, 0}, {grad_qkv, 1},
                              {grad_qkv, 2});
    EXPECT_LE(UlpsApart(result.out.values, wanted.out), kUlps);
    EXPECT_LE(UlpsApart(grad_qkv.values, wanted.grad_qkv), kUlps);
  }
}

TEST(AttentionCompute, BlocksInTheOrderOfPositionsChangeNoBit) {
  Values qkv = Values::Random({kSequence, kBatch, kHeads, 3, kWidth}, 3);
  const auto whole = Attend(qkv, {kSequence});
  for (const auto& ends : std::vector<std::vector<std::size_t>>{{1, kSequence}, {5, 6, 16, kSequence}, {8, 8, 17}}) {
    const auto blocks = Attend(qkv, ends);
    EXPECT_EQ(blocks.out.values, whole.out.values);
    EXPECT_EQ(blocks.lse.values, whole.lse.values);
  }
}

// exp of such scores is beyond float32 either way, and each key's is larger than all before it, or smaller.
TEST(AttentionCompute, LargeScoresOverflowNothing) {
  for (const float slope : {40.0F, -40.0F}) {
    Values qkv = Values::Random({kSequence, kBatch, kHeads, 3, kWidth}, 4);
    for (std::size_t row = 0; row < qkv.values.size() / (3 * kWidth); ++row) {
      const std::size_t position = row / (kBatch * kHeads);
      qkv.values[row * 3 * kWidth] = 10;
      qkv.values[row * 3 * kWidth + kWidth] = slope * (static_cast<float>(position) - 8);
    }
    const PlainAttention wanted(qkv, Values({kSequence, kBatch, kHeads, kWidth}), false);
    const auto result = Attend(qkv, {3, 9, kSequence});
    EXPECT_LE(UlpsApart(result.out.values, wanted.out), kUlps);
    EXPECT_TRUE(std::ranges::all_of(result.lse.values, [](float lse) { return std::isfinite(lse); }));
  }
}

}  // namespace
}  // namespace tutti::parallel
