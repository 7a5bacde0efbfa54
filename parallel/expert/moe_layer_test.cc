// A model with a layer of experts, trained on one rank, split, and split and replicated.
#include "tutti/parallel/moe_layer.h"

#include <cmath>
#include <numeric>

#include "parallel/testing.h"
#include "testing/ranks.h"
#include "tutti/parallel/host_compute.h"
#include "tutti/parallel/parallel_state.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

constexpr std::size_t kExperts = 4, kTopk = 2, kHidden = 8, kBatch = 32, kSteps = 200;
constexpr float kAuxLoss = 0.01F, kRate = 0.3F;

// The ranks that share a batch, those that share the experts among them, and those that hold the same ones.
struct Groups {
  ProcessGroup &batch, &ep, &expert_dp;
};

// Linear experts [local, hidden, hidden] and a router [experts, hidden], each with its gradient.
class Model {
 public:
  explicit Model(const Groups& groups)
      : groups_(groups),
        size_(static_cast<std::size_t>(groups.batch.size())),
        rank_(static_cast<std::size_t>(groups.batch.rank())),
        router_(RandomFloats(kExperts * kHidden, 1)),
        grad_router_(router_.size()),
        dispatcher_(groups.ep, compute_, {.num_experts = kExperts, .topk = kTopk, .hidden_size = kHidden}),
        // Losses and gradients are sums over ranks, here.
        layer_(groups.batch, compute_,
               {.num_experts = kExperts, .topk = kTopk, .aux_loss_coeff = kAuxLoss / static_cast<float>(size_)},
               dispatcher_) {
    const auto all = RandomFloats(kExperts * kHidden * kHidden, 2);
    const auto mine = static_cast<std::ptrdiff_t>(all.size()) / groups.ep.size();
    experts_.assign(all.begin() + groups.ep.rank() * mine, all.begin() + (groups.ep.rank() + 1) * mine);
    grad_experts_.resize(experts_.size());
  }

  // One step on this rank's part of batch `step`; returns the whole batch's loss.
  float Step(unsigned step) {
    const std::size_t tokens = kBatch / size_, first = rank_ * tokens * kHidden;
    auto batch = RandomFloats(kBatch * kHidden, 100 + step);
    const Tensor x(batch.data() + first, {tokens, kHidden});
    const Buffer logits(compute_, {tokens, kExperts}), y(compute_, x.shape), grad_y(compute_, x.shape),
        grad_x(compute_, x.shape), grad_logits(compute_, {tokens, kExperts});
    compute_.matmul(Transposed::no, x, Transposed::yes, Router(router_), logits, false);
    const auto state = layer_.forward(
        x, logits,
        [this](const Tensor& input, const auto& counts, const Tensor& output) {
          ForEachExpert(counts, [&](std::size_t expert, std::size_t from, std::size_t rows) {
            compute_.matmul(Transposed::no, Rows(input, from, rows), Transposed::yes, Expert(experts_, expert),
                            Rows(output, from, rows), false);
          });
        },
        y);
    float loss = state.aux_loss;
    for (std::size_t i = 0; i < x.count(); ++i) {
      const float off = y.tensor().floats()[i] - std::sin(3 * x.floats()[i]);
      loss += off * off / (kBatch * kHidden);
      grad_y.tensor().floats()[i] = 2 * off / (kBatch * kHidden);
    }
    layer_.backward(
        state, grad_y,
        [&](const Tensor& grad_output, const auto& counts, const Tensor& grad_input) {
          ForEachExpert(counts, [&](std::size_t expert, std::size_t from, std::size_t rows) {
            const Tensor grad = Rows(grad_output, from, rows);
            compute_.matmul(Transposed::yes, grad, Transposed::no, Rows(state.expert_input, from, rows),
                            Expert(grad_experts_, expert), false);
            compute_.matmul(Transposed::no, grad, Transposed::no, Expert(experts_, expert),
                            Rows(grad_input, from, rows), false);
          });
        },
        grad_x, grad_logits);
    compute_.matmul(Transposed::yes, grad_logits, Transposed::no, x, Router(grad_router_), false);
    AddUp(groups_.batch, grad_router_);
    AddUp(groups_.expert_dp, grad_experts_);
    Descend(router_, grad_router_);
    Descend(experts_, grad_experts_);
    std::vector<float> sum{loss};
    AddUp(groups_.batch, sum);
    return sum.front();
  }

 private:
  static Tensor Router(std::vector<float>& weights) { return Tensor(weights.data(), {kExperts, kHidden}); }
  static Tensor Expert(std::vector<float>& weights, std::size_t expert) {
    return Tensor(weights.data() + expert * kHidden * kHidden, {kHidden, kHidden});
  }
  static Tensor Rows(const Tensor& tensor, std::size_t from, std::size_t rows) {
    return Tensor(tensor.floats() + from * kHidden, {rows, kHidden});
  }
  static void ForEachExpert(const std::vector<std::size_t>& counts,
                            const std::function<void(std::size_t, std::size_t, std::size_t)>& function) {
    std::size_t from = 0;
    for (std::size_t expert = 0; expert < counts.size(); from += counts[expert++]) {
      function(expert, from, counts[expert]);
    }
  }
  static void AddUp(ProcessGroup& group, std::vector<float>& values) {
    const Tensor all(values.data(), {values.size()});
    group.all_reduce(all, all, tuttiSum);
  }
  static void Descend(std::vector<float>& weights, const std::vector<float>& gradient) {
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= kRate * gradient[i];
  }

  Groups groups_;
  std::size_t size_, rank_;  // of the batch
  HostCompute compute_;
  std::vector<float> router_, grad_router_, experts_, grad_experts_;
  MoEAlltoAllTokenDispatcher dispatcher_;
  MoELayer layer_;
};

std::vector<float> Losses(const Groups& groups) {
  Model model(groups);
  std::vector<float> losses;
  for (unsigned step = 0; step < kSteps; ++step) losses.push_back(model.Step(step));
  return losses;
}

// On two ranks each has half of the experts; on four, two have each half.
TEST(MoELayer, TrainsSplitAsOnOneRank) {
  for (const int ranks : {2, 4}) {
    RunRanks(ranks, [](Rank& self) {
      const auto comm = self.Join();
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      config.deterministic = 1;
      const auto split = initialize_model_parallel(comm, {.expert_model_parallel_size = 2}, config);
      auto& world = split->get_world_group();
      ProcessGroup alone(world, "alone", {self.rank()}, config);
      const Groups groups{split->get_data_parallel_group(), split->get_expert_model_parallel_group(),
                          split->get_expert_data_parallel_group()};
      const auto wanted = Losses({alone, alone, alone}), got = Losses(groups);
      EXPECT_LT(wanted.back(), wanted.front() / 2);
      for (std::size_t step = 0; step < kSteps; ++step) {
        ASSERT_NEAR(got[step], wanted[step], 1e-4 * wanted[step]) << "step " << step;
      }
      EXPECT_EQ(Losses(groups), got);  // to the bit
      self.Meet();
    });
  }
}

// The example of docs/parallel_experts.md: each expert doubles its rows. The gradient of doubling is doubling.
void ForwardAndBackward(ProcessGroup& ep, Compute& compute, const Tensor& tokens, const Tensor& logits,
                        const Tensor& output, const Tensor& grad_output, const Tensor& grad_tokens,
                        const Tensor& grad_logits) {
  const std::size_t hidden = tokens.columns();
  MoEAlltoAllTokenDispatcher dispatcher(ep, compute, {.num_experts = 8, .topk = 2, .hidden_size = hidden});
  MoELayer layer(ep, compute, {.num_experts = 8, .topk = 2, .aux_loss_coeff = 0.01F}, dispatcher);

  // The first tokens_per_expert[0] rows are for this rank's first expert, the next for its second, ...
  const auto experts = [&](const Tensor& input, const std::vector<std::size_t>& tokens_per_expert,
                           const Tensor& result) {
    static_cast<void>(tokens_per_expert);
    compute.copy_columns(input, 0, result, 0, hidden);
    compute.scale(result, 2);
  };
  const auto state = layer.forward(tokens, logits, experts, output);
  layer.backward(state, grad_output, experts, grad_tokens, grad_logits);
}

TEST(MoELayer, ExampleDoublesTokensAndGradients) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup ep(comm);
    HostCompute compute;
    constexpr std::size_t kTokens = 9;
    const auto rank = static_cast<unsigned>(self.rank());
    auto tokens = RandomFloats(kTokens * kHidden, rank), grad_output = RandomFloats(kTokens * kHidden, 2 + rank),
         logits = RandomFloats(kTokens * 8, 4 + rank);
    std::vector<float> output(tokens.size()), grad_tokens(tokens.size()), grad_logits(logits.size());
    const auto as = [](std::vector<float>& values, std::size_t columns) {
      return Tensor(values.data(), {kTokens, columns});
    };
    ForwardAndBackward(ep, compute, as(tokens, kHidden), as(logits, 8), as(output, kHidden), as(grad_output, kHidden),
                       as(grad_tokens, kHidden), as(grad_logits, 8));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      ASSERT_NEAR(output[i], 2 * tokens[i], 1e-5);
      ASSERT_NEAR(grad_tokens[i], 2 * grad_output[i], 1e-5);
    }
    self.Meet();
  });
}

TEST(MoELayer, CountsTheGroupsLoad) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup ep(comm);
    HostCompute compute;
    MoEAlltoAllTokenDispatcher dispatcher(ep, compute,
                                          {.num_experts = 2, .topk = 1, .hidden_size = 1, .capacity_factor = 1});
    MoELayer layer(ep, compute, {.num_experts = 2, .topk = 1}, dispatcher);
    // Rank 0's six tokens go to expert 1, which takes three; rank 1 has none.
    const std::size_t tokens = self.rank() == 0 ? 6 : 0;
    std::vector<float> x(6, 2), logits{0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9}, y(6);
    const auto state = layer.forward(
        Tensor(x.data(), {tokens, 1}), Tensor(logits.data(), {tokens, 2}),
        [&](const Tensor& input, const auto& counts, const Tensor& output) {
          EXPECT_EQ(counts, (std::vector<std::size_t>{self.rank() == 0 ? 0u : 3u}));
          compute.copy_columns(input, 0, output, 0, 1);
        },
        Tensor(y.data(), {tokens, 1}));
    EXPECT_EQ(state.load.tokens_per_expert, (std::vector<std::int64_t>{0, 6}));
    EXPECT_EQ(state.load.dropped, 3);
    EXPECT_EQ(state.load.max_over_mean(), 2);
    if (self.rank() == 0) {
      EXPECT_EQ(y, (std::vector<float>{2, 2, 2, 0, 0, 0}));
    }
    EXPECT_TRUE(Throws([&] { MoELayer(ep, compute, {.num_experts = 4, .topk = 1}, dispatcher); }, tuttiInvalidArgument,
                       {"the router's num_experts is 4", "the dispatcher's is 2"}));
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::parallel
