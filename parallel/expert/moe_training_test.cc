// A model with a layer of experts, trained on one rank, split, and split and replicated.
#include <cmath>
#include <functional>

#include "parallel/testing.h"
#include "testing/ranks.h"
#include "tutti/parallel/host_compute.h"
#include "tutti/parallel/parallel_state.h"
#include "tutti/parallel/token_dispatcher.h"

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
        route_(compute_,
               {.num_experts = kExperts, .topk = kTopk, .aux_loss_coeff = kAuxLoss / static_cast<float>(size_)}) {
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
    const Routing routing = route_.forward(logits);
    LoadStatistics load = load_statistics(routing);
    load.all_reduce(groups_.batch);
    const DispatchHandle handle = dispatcher_.get_dispatch_layout(routing);
    const Buffer input = dispatcher_.dispatch(x, handle);
    const Buffer results(compute_, input.tensor().shape), grad_input(compute_, input.tensor().shape);
    ForEachExpert(handle, [&](std::size_t expert, std::size_t from, std::size_t rows) {
      compute_.matmul(Transposed::no, Rows(input, from, rows), Transposed::yes, Expert(experts_, expert),
                      Rows(results, from, rows), false);
    });
    const Combined combined = dispatcher_.combine(results, routing.topk_weights, handle, y);
    float loss = route_.aux_loss(routing, load);
    for (std::size_t i = 0; i < x.count(); ++i) {
      const float off = y.tensor().floats()[i] - std::sin(3 * x.floats()[i]);
      loss += off * off / (kBatch * kHidden);
      grad_y.tensor().floats()[i] = 2 * off / (kBatch * kHidden);
    }
    const Buffer grad_weights(compute_, routing.topk_weights.tensor().shape);
    const Buffer grad_results = dispatcher_.combine_backward(grad_y, combined, handle, grad_weights);
    ForEachExpert(handle, [&](std::size_t expert, std::size_t from, std::size_t rows) {
      const Tensor grad = Rows(grad_results, from, rows);
      compute_.matmul(Transposed::yes, grad, Transposed::no, Rows(input, from, rows), Expert(grad_experts_, expert),
                      false);
      compute_.matmul(Transposed::no, grad, Transposed::no, Expert(experts_, expert), Rows(grad_input, from, rows),
                      false);
    });
    dispatcher_.dispatch_backward(grad_input, handle, grad_x);
    route_.backward(routing, load, grad_weights, grad_logits);
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
  static void ForEachExpert(const DispatchHandle& handle,
                            const std::function<void(std::size_t, std::size_t, std::size_t)>& function) {
    const auto& counts = handle.tokens_per_expert();
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
  TopKRouter route_;
};

std::vector<float> Losses(const Groups& groups) {
  Model model(groups);
  std::vector<float> losses;
  for (unsigned step = 0; step < kSteps; ++step) losses.push_back(model.Step(step));
  return losses;
}

// On two ranks each has half of the experts; on four, two have each half.
TEST(MixtureOfExperts, TrainsSplitAsOnOneRank) {
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

// The example of docs/parallel_experts.md: each expert doubles its rows.
void ForwardAndBackward(ProcessGroup& ep, Compute& compute, const Tensor& tokens, const Tensor& logits,
                        const Tensor& output, const Tensor& grad_output, const Tensor& grad_tokens,
                        const Tensor& grad_logits) {
  MoEAlltoAllTokenDispatcher dispatcher(ep, compute, {.num_experts = 8, .topk = 2, .hidden_size = tokens.columns()});
  TopKRouter router(compute, {.num_experts = 8, .topk = 2, .aux_loss_coeff = 0.01F});

  const Routing routing = router.forward(logits);
  LoadStatistics load = load_statistics(routing);
  load.all_reduce(ep);  // over the ranks that share a batch
  const DispatchHandle handle = dispatcher.get_dispatch_layout(routing);
  // The first handle.tokens_per_expert()[0] rows are for this rank's first expert, the next for its second, ...
  const Buffer rows = dispatcher.dispatch(tokens, handle);
  compute.scale(rows, 2);
  const Combined combined = dispatcher.combine(rows, routing.topk_weights, handle, output);

  const Buffer grad_weights(compute, routing.topk_weights.tensor().shape);
  const Buffer grad_rows = dispatcher.combine_backward(grad_output, combined, handle, grad_weights);
  compute.scale(grad_rows, 2);
  dispatcher.dispatch_backward(grad_rows, handle, grad_tokens);
  router.backward(routing, load, grad_weights, grad_logits);
}

TEST(MixtureOfExperts, ExampleDoublesTokensAndGradients) {
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

}  // namespace
}  // namespace tutti::parallel
