// Split layers against the same layers on one rank: outputs, and every gradient.
#include "tutti/parallel/tensor_parallel.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "parallel/testing.h"
#include "testing/ranks.h"
#include "tutti/parallel/host_compute.h"
#include "tutti/parallel/vocab_parallel.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

// A tensor with its memory; equal seeds give equal values everywhere.
class Values {
 public:
  explicit Values(Shape shape)
      : values_(Tensor(static_cast<float*>(nullptr), shape).count()), shape_(std::move(shape)) {}
  Values(Shape shape, unsigned seed) : Values(std::move(shape)) {
    std::mt19937 random(seed);
    for (auto& value : values_) value = static_cast<float>(random() % 2001) / 1000 - 1;
  }
  operator Tensor() { return Tensor(values_.data(), shape_); }  // NOLINT: stands for the tensor in every call
  Tensor tensor() { return *this; }
  std::vector<float>& all() { return values_; }

  // Part `part` of `parts` along the first dimension, or the last.
  Values Rows(std::size_t part, std::size_t parts) {
    const auto chunk = tensor().chunk(part, parts);
    Values piece(chunk.shape);
    std::copy_n(chunk.floats(), chunk.count(), piece.values_.begin());
    return piece;
  }
  Values Columns(std::size_t part, std::size_t parts) {
    Shape shape = shape_;
    shape.back() /= parts;
    Values piece(shape);
    HostCompute().copy_columns(*this, part * shape.back(), piece, 0, shape.back());
    return piece;
  }

 private:
  std::vector<float> values_;
  Shape shape_;
};

void ExpectNear(Values& got, Values& wanted, const char* what) {
  ASSERT_EQ(got.all().size(), wanted.all().size()) << what;
  for (std::size_t i = 0; i < got.all().size(); ++i) {
    ASSERT_NEAR(got.all()[i], wanted.all()[i], 1e-4) << what << " at " << i;
  }
}

// One rank's view of what is run: its group, and the same layer unsplit.
struct Sides {
  explicit Sides(Rank& self) : comm(self.Join()), group(comm), tp{group, compute} {}

  tutti::testing::Comm comm;
  HostCompute compute;
  ProcessGroup group;
  TensorParallel tp;
};

struct Linear {
  Values weight, bias, grad_weight, grad_bias;
  LinearParameters parameters() { return {weight, bias, grad_weight, grad_bias}; }
};
Linear Whole(std::size_t inputs, std::size_t outputs) {
  return {Values({outputs, inputs}, 1), Values({outputs}, 2), Values({outputs, inputs}), Values({outputs})};
}

// y = x w^T + b and its gradients, written once more, without the code under test.
struct Reference {
  Reference(Values& x, Linear& linear, Values& grad_y)
      : y(WithColumns(x, linear.bias.all().size())), grad_x(x.tensor().shape) {
    const std::size_t rows = x.tensor().rows(), inputs = x.tensor().columns(), outputs = linear.bias.all().size();
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t o = 0; o < outputs; ++o) {
        float sum = linear.bias.all()[o];
        const float grad = grad_y.all()[r * outputs + o];
        for (std::size_t i = 0; i < inputs; ++i) {
          sum += x.all()[r * inputs + i] * linear.weight.all()[o * inputs + i];
          grad_x.all()[r * inputs + i] += grad * linear.weight.all()[o * inputs + i];
          linear.grad_weight.all()[o * inputs + i] += grad * x.all()[r * inputs + i];
        }
        linear.grad_bias.all()[o] += grad;
        y.all()[r * outputs + o] = sum;
      }
    }
  }
  static Shape WithColumns(Values& x, std::size_t columns) {
    Shape shape = x.tensor().shape;
    shape.back() = columns;
    return shape;
  }
  Values y, grad_x;
};

class Split : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Over, Split, ::testing::Values(1, 2, 3, 4),
                         [](const auto& info) { return fmt::format("{}_ranks", info.param); });

constexpr std::size_t kSequence = 12, kBatch = 2, kInputs = 24, kOutputs = 36;

TEST_P(Split, ColumnParallelLinear) {
  RunRanks(GetParam(), [](Rank& self) {
    Sides sides(self);
    const std::size_t size = sides.tp.size(), rank = sides.tp.rank();
    for (const bool gather : {false, true}) {
      for (const bool sequence : {false, true}) {
        SCOPED_TRACE(fmt::format("gather_output {} sequence_parallel {}", gather, sequence));
        Values x({kSequence, kBatch, kInputs}, 3), grad_y({kSequence, kBatch, kOutputs}, 4);
        Linear whole = Whole(kInputs, kOutputs);
        Reference wanted(x, whole, grad_y);

        Linear mine{whole.weight.Rows(rank, size), whole.bias.Rows(rank, size), Values({kOutputs / size, kInputs}),
                    Values({kOutputs / size})};
        ColumnParallelLinear layer(sides.tp, kInputs, kOutputs, mine.parameters(),
                                   {.gather_output = gather, .sequence_parallel = sequence});
        Values input = sequence ? x.Rows(rank, size) : x;
        Values output = gather ? Values({kSequence, kBatch, kOutputs}) : Values({kSequence, kBatch, kOutputs / size});
        layer.forward(input, output);
        Values grad_output = gather ? grad_y : grad_y.Columns(rank, size);
        Values grad_input(input.tensor().shape);
        layer.backward(input, grad_output, grad_input);

        Values y = gather ? wanted.y : wanted.y.Columns(rank, size);
        Values grad_x = sequence ? wanted.grad_x.Rows(rank, size) : wanted.grad_x;
        Values grad_weight = whole.grad_weight.Rows(rank, size), grad_bias = whole.grad_bias.Rows(rank, size);
        ExpectNear(output, y, "output");
        ExpectNear(grad_input, grad_x, "grad_input");
        ExpectNear(mine.grad_weight, grad_weight, "grad_weight");
        ExpectNear(mine.grad_bias, grad_bias, "grad_bias");
      }
    }
    self.Meet();
  });
}

TEST_P(Split, RowParallelLinear) {
  RunRanks(GetParam(), [](Rank& self) {
    Sides sides(self);
    const std::size_t size = sides.tp.size(), rank = sides.tp.rank();
    for (const bool parallel : {false, true}) {
      for (const bool sequence : {false, true}) {
        SCOPED_TRACE(fmt::format("input_is_parallel {} sequence_parallel {}", parallel, sequence));
        Values x({kSequence, kBatch, kInputs}, 3), grad_y({kSequence, kBatch, kOutputs}, 4);
        Linear whole = Whole(kInputs, kOutputs);
        Reference wanted(x, whole, grad_y);

        Linear mine{whole.weight.Columns(rank, size), whole.bias, Values({kOutputs, kInputs / size}),
                    Values({kOutputs})};
        RowParallelLinear layer(sides.tp, kInputs, kOutputs, mine.parameters(),
                                {.input_is_parallel = parallel, .sequence_parallel = sequence});
        Values input = parallel ? x.Columns(rank, size) : x;
        Values y = sequence ? wanted.y.Rows(rank, size) : wanted.y;
        Values output(y.tensor().shape);
        layer.forward(input, output);
        Values grad_output = sequence ? grad_y.Rows(rank, size) : grad_y;
        Values grad_input(input.tensor().shape);
        layer.backward(input, grad_output, grad_input);

        Values grad_x = parallel ? wanted.grad_x.Columns(rank, size) : wanted.grad_x;
        Values grad_weight = whole.grad_weight.Columns(rank, size);
        ExpectNear(output, y, "output");
        ExpectNear(grad_input, grad_x, "grad_input");
        ExpectNear(mine.grad_weight, grad_weight, "grad_weight");
        ExpectNear(mine.grad_bias, whole.grad_bias, "grad_bias");
      }
    }
    self.Meet();
  });
}

TEST_P(Split, VocabParallelEmbedding) {
  RunRanks(GetParam(), [](Rank& self) {
    Sides sides(self);
    const std::size_t size = sides.tp.size(), rank = sides.tp.rank();
    constexpr std::size_t kVocabulary = 60, kWidth = 5;
    std::vector<std::int32_t> ids(kSequence * kBatch);
    std::mt19937 random(5);
    for (auto& id : ids) id = static_cast<std::int32_t>(random() % kVocabulary);
    const Tensor tokens(ids.data(), {kSequence, kBatch}, tuttiInt32);
    for (const bool sequence : {false, true}) {
      Values table({kVocabulary, kWidth}, 1), grad_y({kSequence, kBatch, kWidth}, 2), y({kSequence, kBatch, kWidth}),
          grad_table({kVocabulary, kWidth});
      for (std::size_t i = 0; i < ids.size(); ++i) {
        for (std::size_t c = 0; c < kWidth; ++c) {
          const std::size_t at = static_cast<std::size_t>(ids[i]) * kWidth + c;
          y.all()[i * kWidth + c] = table.all()[at];
          grad_table.all()[at] += grad_y.all()[i * kWidth + c];
        }
      }
      Values weight = table.Rows(rank, size), grad_weight({kVocabulary / size, kWidth});
      VocabParallelEmbedding layer(sides.tp, kVocabulary, kWidth, weight, grad_weight, sequence);
      Values wanted = sequence ? y.Rows(rank, size) : y, output(wanted.tensor().shape);
      layer.forward(tokens, output);
      layer.backward(tokens, sequence ? grad_y.Rows(rank, size).tensor() : grad_y.tensor());
      Values wanted_grad = grad_table.Rows(rank, size);
      ExpectNear(output, wanted, "output");
      ExpectNear(grad_weight, wanted_grad, "grad_weight");
    }
    self.Meet();
  });
}

TEST_P(Split, VocabParallelCrossEntropy) {
  RunRanks(GetParam(), [](Rank& self) {
    Sides sides(self);
    const std::size_t size = sides.tp.size(), rank = sides.tp.rank();
    constexpr std::size_t kRows = 7, kVocabulary = 60;
    Values logits({kRows, kVocabulary}, 1), losses({kRows}), grads({kRows, kVocabulary}), grad_losses({kRows}, 2);
    for (auto& logit : logits.all()) logit *= 100;  // exp of it overflows: the maximum must be subtracted
    std::vector<std::int32_t> ids(kRows);
    std::mt19937 random(6);
    for (std::size_t r = 0; r < kRows; ++r) {
      ids[r] = static_cast<std::int32_t>(random() % kVocabulary);
      const float* const row = logits.all().data() + r * kVocabulary;
      const double maximum = *std::max_element(row, row + kVocabulary);
      double sum = 0;
      for (std::size_t c = 0; c < kVocabulary; ++c) sum += std::exp(row[c] - maximum);
      losses.all()[r] = static_cast<float>(std::log(sum) + maximum - row[ids[r]]);
      for (std::size_t c = 0; c < kVocabulary; ++c) {
        const double target = static_cast<std::size_t>(ids[r]) == c ? 1 : 0;
        grads.all()[r * kVocabulary + c] =
            static_cast<float>((std::exp(row[c] - maximum) / sum - target) * grad_losses.all()[r]);
      }
    }
    const Tensor targets(ids.data(), {kRows}, tuttiInt32);
    VocabParallelCrossEntropy loss(sides.tp, kVocabulary);
    for (int again = 0; again < 2; ++again) {
      Values mine = logits.Columns(rank, size), got({kRows}), wanted_grads = grads.Columns(rank, size);
      loss.forward(mine, targets, got);
      ExpectNear(got, losses, "losses");
      loss.backward(mine, targets, grad_losses, mine);
      ExpectNear(mine, wanted_grads, "grad_logits");
    }
    self.Meet();
  });
}

// The pair of a transformer's MLP: forward does one all-reduce (or a gather and a scatter), backward the same.
TEST(TensorParallel, SendsWhatThePaperSays) {
  RunRanks(4, [](Rank& self) {
    constexpr std::size_t kHidden = 64, kRows = 128;
    Sides sides(self);
    for (const bool sequence : {false, true}) {
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      config.algorithm = "ring";  // which sends the least possible
      ProcessGroup group(sides.group, "tp", {0, 1, 2, 3}, config);
      const TensorParallel tp{group, sides.compute};
      Linear up{Values({kHidden, kHidden}), Values({kHidden}), Values({kHidden, kHidden}), Values({kHidden})};
      Linear down{Values({kHidden, kHidden}), Values({kHidden}), Values({kHidden, kHidden}), Values({kHidden})};
      ColumnParallelLinear first(tp, kHidden, 4 * kHidden, up.parameters(), {.sequence_parallel = sequence});
      RowParallelLinear second(tp, 4 * kHidden, kHidden, down.parameters(), {.sequence_parallel = sequence});
      const std::size_t rows = sequence ? kRows / 4 : kRows;
      Values x({rows, kHidden}), middle({kRows, kHidden}), y({rows, kHidden});
      Values grad_x({rows, kHidden}), grad_middle({kRows, kHidden});
      first.forward(x, middle);
      second.forward(middle, y);
      const std::size_t bytes = kRows * kHidden * sizeof(float);
      // An all-reduce is 2 (n - 1) / n of the bytes, a gather or a reduce-scatter half of that.
      EXPECT_EQ(group.bytes_sent(), 2 * bytes * 3 / 4);
      second.backward(middle, y, grad_middle);
      first.backward(x, grad_middle, grad_x);
      // With the sequence split, backward gathers the input once more.
      EXPECT_EQ(group.bytes_sent(), (sequence ? 5 : 4) * bytes * 3 / 4);
    }
    self.Meet();
  });
}

TEST(TensorParallel, NamesWhatDoesNotFit) {
  RunRanks(2, [](Rank& self) {
    Sides sides(self);
    Linear linear = Whole(4, 6);
    EXPECT_TRUE(Throws([&] { ColumnParallelLinear(sides.tp, 4, 7, linear.parameters()); }, tuttiInvalidArgument,
                       {"output_size (7)", "tensor_model_parallel_size (2)"}));
    EXPECT_TRUE(Throws([&] { ColumnParallelLinear(sides.tp, 4, 6, linear.parameters()); }, tuttiInvalidArgument,
                       {"the weight has shape [6, 4]", "[3, 4]"}));
    EXPECT_TRUE(Throws([&] { RowParallelLinear(sides.tp, 5, 6, linear.parameters()); }, tuttiInvalidArgument,
                       {"input_size (5)"}));
    EXPECT_TRUE(Throws([&] { vocab_range(sides.tp, 31); }, tuttiInvalidArgument, {"vocabulary's size (31)", "(2)"}));
    RowParallelLinear layer(sides.tp, 8, 6, {Values({6, 4}), Tensor(), Values({6, 4}), Tensor()},
                            {.sequence_parallel = true});
    Values x({3, 4}), y({3, 6});
    EXPECT_TRUE(Throws([&] { layer.forward(x, y); }, tuttiInvalidArgument, {"sequence's length (3)", "(2)"}));
    self.Meet();
  });
}

// The weight's gradient would be computed from what grad_input has overwritten, or is overwriting.
TEST(TensorParallel, RefusesAGradientInTheMemoryOfWhatItNeeds) {
  RunRanks(2, [](Rank& self) {
    Sides sides(self);
    Linear parts[] = {Whole(4, 4), Whole(4, 4)};
    ColumnParallelLinear columns(sides.tp, 4, 8, parts[0].parameters());
    RowParallelLinear rows(sides.tp, 8, 4, parts[1].parameters());
    Values x({3, 4}), y({3, 4}), both({4, 4});
    // The last rows of one are the first of the other.
    const Tensor early(both.tensor().floats(), {3, 4}), late(both.tensor().floats() + 4, {3, 4});
    const auto refused = [&](auto& layer, const Tensor& input, const Tensor& grad_output, const Tensor& grad_input,
                             const char* shared) {
      EXPECT_TRUE(Throws([&] { layer.backward(input, grad_output, grad_input); }, tuttiInvalidArgument,
                         {"grad_input has 48 bytes", shared}));
    };
    const auto both_refuse = [&](const Tensor& input, const Tensor& grad_output, const Tensor& grad_input,
                                 const char* shared) {
      refused(columns, input, grad_output, grad_input, shared);
      refused(rows, input, grad_output, grad_input, shared);
    };
    const auto before = sides.group.bytes_sent();
    both_refuse(x, y, x, "the input has 48 bytes");
    both_refuse(early, y, late, "the input has 48 bytes");
    both_refuse(late, y, early, "the input has 48 bytes");
    both_refuse(x, late, early, "grad_output has 48 bytes");
    EXPECT_EQ(sides.group.bytes_sent(), before);
    // Neighbouring memory is apart.
    const Tensor first(both.tensor().floats(), {2, 4}), second(both.tensor().floats() + 8, {2, 4});
    columns.backward(first, Values({2, 4}), second);
    rows.backward(second, Values({2, 4}), first);
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::parallel
