// Deferred gradients equal immediate ones, bit for bit, whatever becomes of the caller's memory.
#include "tutti/parallel/weight_grad_store.h"

#include <fmt/format.h>

#include "parallel/testing.h"
#include "testing/ranks.h"
#include "tutti/parallel/host_compute.h"
#include "tutti/parallel/tensor_parallel.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

constexpr std::size_t kSequence = 12, kInputs = 24, kOutputs = 36;

using Floats = std::vector<float>;

struct Gradients {
  Floats weight, bias, input;
  bool operator==(const Gradients&) const = default;
};

// Gradients of two micro-batches, one after the other, by a layer whose weight has that shape on this rank. With a
// store the parameters' gradients come after the second micro-batch.
template <typename Layer, typename Options>
Gradients Backward(const TensorParallel& tp, const Shape& weight_shape, std::size_t biases, const Options& options,
                   const Shape& input_shape, const Shape& output_shape, WeightGradStore* store) {
  const auto count = [](const Shape& shape) { return Tensor(static_cast<float*>(nullptr), shape).count(); };
  Floats weight = RandomFloats(count(weight_shape), 1 + static_cast<unsigned>(tp.rank())),
         bias = RandomFloats(biases, 2);
  Gradients gradients{Floats(weight.size()), Floats(biases), {}};
  const LinearParameters parameters{Tensor(weight.data(), weight_shape), Tensor(bias.data(), {biases}),
                                    Tensor(gradients.weight.data(), weight_shape),
                                    Tensor(gradients.bias.data(), {biases}), store};
  Layer layer(tp, kInputs, kOutputs, parameters, options);
  const unsigned seed = 10 * static_cast<unsigned>(tp.rank());
  std::vector<Floats> inputs{RandomFloats(count(input_shape), seed + 3), RandomFloats(count(input_shape), seed + 4)};
  if (store != nullptr) store->defer(true);
  for (unsigned microbatch = 0; microbatch < 2; ++microbatch) {
    Floats grad_output = RandomFloats(count(output_shape), seed + 5 + microbatch), grad_input(count(input_shape));
    layer.backward(Tensor(inputs[microbatch].data(), input_shape), Tensor(grad_output.data(), output_shape),
                   Tensor(grad_input.data(), input_shape));
    std::ranges::copy(grad_input, std::back_inserter(gradients.input));
    std::ranges::fill(grad_output, 1e9F);
  }
  if (store == nullptr) return gradients;
  store->defer(false);
  EXPECT_EQ(gradients.weight, Floats(weight.size()));
  EXPECT_EQ(gradients.bias, Floats(biases));
  const auto put_off = store->take();
  EXPECT_EQ(put_off.size(), 2u);
  for (const auto& gradient : put_off) gradient();
  EXPECT_TRUE(store->take().empty());
  return gradients;
}

TEST(WeightGradStore, CallsAtOnceOrLater) {
  WeightGradStore store;
  std::string done;
  store.call([&] { done += "a"; });
  EXPECT_EQ(done, "a");
  store.defer(true);
  store.call([&] { done += "b"; });
  store.call([&] { done += "c"; });
  store.defer(false);
  EXPECT_EQ(done, "a");
  for (const auto& gradient : store.take()) gradient();
  EXPECT_EQ(done, "abc");
}

class WeightGradStoreOver : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, WeightGradStoreOver, ::testing::Values(1, 2, 3, 4));

TEST_P(WeightGradStoreOver, PutOffOrAtOnce) {
  RunRanks(GetParam(), [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    const TensorParallel tp{group, compute};
    const std::size_t size = tp.size();
    for (const bool sequence : {false, true}) {
      const std::size_t part = sequence ? kSequence / size : kSequence;
      for (const bool whole : {false, true}) {
        SCOPED_TRACE(fmt::format("sequence_parallel {}, whole ends {}", sequence, whole));
        WeightGradStore store;
        const auto column = [&](WeightGradStore* later) {
          return Backward<ColumnParallelLinear>(
              tp, {kOutputs / size, kInputs}, kOutputs / size,
              ColumnParallelOptions{.gather_output = whole, .sequence_parallel = sequence}, {part, kInputs},
              {kSequence, whole ? kOutputs : kOutputs / size}, later);
        };
        EXPECT_TRUE(column(&store) == column(nullptr));
        const auto row = [&](WeightGradStore* later) {
          return Backward<RowParallelLinear>(
              tp, {kOutputs, kInputs / size}, kOutputs,
              RowParallelOptions{.input_is_parallel = !whole, .sequence_parallel = sequence},
              {kSequence, whole ? kInputs : kInputs / size}, {part, kOutputs}, later);
        };
        EXPECT_TRUE(row(&store) == row(nullptr));
      }
    }
    self.Meet();
  });
}

// While nothing is deferred, the store is left alone.
TEST(WeightGradStore, OnlyWhileDeferring) {
  RunRanks(1, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    Floats weight(4, 2), grad_weight(4), x{1, 2}, grad_y{3, 4}, grad_x(2);
    WeightGradStore store;
    ColumnParallelLinear layer({group, compute}, 2, 2,
                               {Tensor(weight.data(), {2, 2}), {}, Tensor(grad_weight.data(), {2, 2}), {}, &store});
    layer.backward(Tensor(x.data(), {1, 2}), Tensor(grad_y.data(), {1, 2}), Tensor(grad_x.data(), {1, 2}));
    EXPECT_EQ(grad_weight, (Floats{3, 6, 4, 8}));
    EXPECT_TRUE(store.take().empty());
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::parallel
