// Attention block by block against the same attention in doubles and in one piece.
#include "tutti/parallel/attention_compute.h"

#include <fmt/format.h>

#include "parallel/context/attention_testing.h"
#include "tutti/parallel/mixed_heads.h"

namespace tutti::parallel {
namespace {

constexpr std::size_t kSequence = 17, kBatch = 3, kHeads = 4, kWidth = 5;
// Units in the last place of a tensor's largest value, in float32: the largest difference seen is 5.6, in the gradient
// of a key that four heads see.
constexpr double kUlps = 8;

// In bfloat16 only the output is rounded, once: by up to half a unit, 0.4 of the largest value's seen. Gradients are
// float32 here; the rounded output changes them by 0.06.
constexpr double kBFloat16Ulps = 0.6;

double LimitOf(tuttiDataType_t dtype) { return dtype == tuttiBfloat16 ? kBFloat16Ulps : kUlps; }

struct Result {
  Values out{{kSequence, kBatch, kHeads, kWidth}};
  Values lse{{kSequence, kBatch, kHeads, 1}};
};

// Attends to keys in blocks that end at `ends`.
Result Attend(Values& qkv, const std::vector<std::size_t>& ends) {
  HostCompute compute;
  ElementwiseAttention attention(compute);
  Result result;
  Values sums(result.lse.shape);
  const SoftmaxState state{Tensor(result.out), Tensor(result.lse), Tensor(sums)};
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    attention.attend(
        {queries_of(qkv), keys_of(qkv).range(begin, end - begin), values_of(qkv).range(begin, end - begin)}, state);
    begin = end;
  }
  attention.finish(state, state.out);
  return result;
}

struct Kind {
  std::size_t kv_heads;
  AttentionMask mask;
  tuttiDataType_t dtype;
};
std::vector<Kind> AllKinds() {
  std::vector<Kind> kinds;
  for (const auto kv_heads : {std::size_t{1}, std::size_t{2}, kHeads}) {
    for (const auto& mask : {AttentionMask{}, AttentionMask{true}, AttentionMask{true, 1}, AttentionMask{true, 5},
                             AttentionMask{true, kSequence}}) {
      for (const auto dtype : {tuttiFloat32, tuttiBfloat16}) kinds.push_back({kv_heads, mask, dtype});
    }
  }
  return kinds;
}
std::string NameOf(const ::testing::TestParamInfo<Kind>& info) {
  const auto& [kv_heads, mask, dtype] = info.param;
  return fmt::format("kv_{}_{}_{}_{}", kv_heads, mask.causal ? "causal" : "all", mask.window, name_of(dtype));
}
class AttentionOf : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, AttentionOf, ::testing::ValuesIn(AllKinds()), NameOf);

TEST_P(AttentionOf, HasThePapersOutputAndGradients) {
  const auto [kv_heads, mask, dtype] = GetParam();
  Typed qkv(Values::Random(mixed_shape(kSequence, kBatch, kHeads, kv_heads, kWidth), 1), dtype);
  Typed grad_out(Values::Random({kSequence, kBatch, kHeads, kWidth}, 2), dtype);
  const PlainAttention wanted(qkv.values(), grad_out.values(), mask);
  HostCompute compute;
  ElementwiseAttention attention(compute);
  Result sum;
  Values sums(sum.lse.shape), delta(sum.lse.shape), grad_qkv(qkv.values().shape);
  Typed out(sum.out, dtype);
  const Tensor mixed = qkv;
  const AttentionInputs inputs{queries_of(mixed), keys_of(mixed), values_of(mixed), mask};
  const SoftmaxState state{Tensor(sum.out), Tensor(sum.lse), Tensor(sums)};
  attention.attend(inputs, state);
  attention.finish(state, Tensor(out));
  attention.attend_delta(Tensor(out), Tensor(grad_out), Tensor(delta));
  attention.attend_backward(inputs, Tensor(grad_out), Tensor(sum.lse), Tensor(delta), queries_of(grad_qkv),
                            keys_of(grad_qkv), values_of(grad_qkv));
  EXPECT_LE(UlpsApart(out.values().values, wanted.out, dtype), LimitOf(dtype));
  EXPECT_LE(UlpsApart(grad_qkv.values, wanted.grad_qkv, dtype), LimitOf(dtype));
}

TEST(AttentionCompute, BlocksInTheOrderOfPositionsChangeNoBit) {
  Values qkv = Values::Random({kSequence, kBatch, kHeads / 2, 4, kWidth}, 3);
  const auto whole = Attend(qkv, {kSequence});
  for (const auto& ends : std::vector<std::vector<std::size_t>>{{1, kSequence}, {5, 6, 16, kSequence}, {8, 8, 17}}) {
    const auto blocks = Attend(qkv, ends);
    EXPECT_EQ(blocks.out.values, whole.out.values);
    EXPECT_EQ(blocks.lse.values, whole.lse.values);
  }
}

// exp of such scores is beyond float32 either way, and each key's score is larger than all before it, or smaller.
TEST(AttentionCompute, LargeScoresOverflowNothing) {
  for (const float slope : {40.0F, -40.0F}) {
    Values qkv = Values::Random({kSequence, kBatch, kHeads, 3, kWidth}, 4);
    for (std::size_t row = 0; row < qkv.values.size() / (3 * kWidth); ++row) {
      const std::size_t position = row / (kBatch * kHeads);
      qkv.values[row * 3 * kWidth] = 10;
      qkv.values[row * 3 * kWidth + kWidth] = slope * (static_cast<float>(position) - 8);
    }
    const PlainAttention wanted(qkv, Values({kSequence, kBatch, kHeads, kWidth}), {});
    const auto result = Attend(qkv, {3, 9, kSequence});
    EXPECT_LE(UlpsApart(result.out.values, wanted.out), kUlps);
    EXPECT_TRUE(std::ranges::all_of(result.lse.values, [](float lse) { return std::isfinite(lse); }));
  }
}

}  // namespace
}  // namespace tutti::parallel
