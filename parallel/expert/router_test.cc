// The router against the definitions, in double precision, and its gradient against differences.
#include "tutti/parallel/router.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "parallel/testing.h"
#include "testing/ranks.h"
#include "tutti/parallel/host_compute.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

constexpr std::size_t kTokens = 11, kExperts = 6;

std::vector<double> Softmax(const float* logits) {
  std::vector<double> p(kExperts);
  for (std::size_t e = 0; e < kExperts; ++e) p[e] = std::exp(static_cast<double>(logits[e]));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (auto& each : p) each /= sum;
  return p;
}

// Each of the k largest in turn, and the first of equal ones.
TEST(TopKRouter, TakesTheLargestAndTheLowerOfEquals) {
  HostCompute compute;
  for (std::size_t k = 1; k <= kExperts; ++k) {
    for (const bool renormalize : {false, true}) {
      SCOPED_TRACE(fmt::format("k {} renormalize {}", k, renormalize));
      auto logits = RandomFloats(kTokens * kExperts, 1);
      for (auto& logit : logits) logit = std::round(logit * 2);  // many are equal
      TopKRouter router(compute, {.num_experts = kExperts, .topk = k, .renormalize = renormalize});
      const auto routing = router.forward(Tensor(logits.data(), {kTokens, kExperts}));
      ASSERT_EQ(routing.tokens(), kTokens);
      const auto weights = FloatsOf(routing.topk_weights);
      for (std::size_t token = 0; token < kTokens; ++token) {
        const float* const row = logits.data() + token * kExperts;
        const auto p = Softmax(row);
        std::vector<std::int32_t> wanted;
        while (wanted.size() < k) {
          std::int32_t best = -1;
          for (std::int32_t e = 0; e < static_cast<std::int32_t>(kExperts); ++e) {
            if (std::ranges::count(wanted, e) == 0 && (best < 0 || row[e] > row[best])) best = e;
          }
          wanted.push_back(best);
        }
        double total = 0;
        for (const auto e : wanted) total += p[static_cast<std::size_t>(e)];
        for (std::size_t j = 0; j < k; ++j) {
          const auto at = token * k + j;
          ASSERT_EQ(routing.topk_indices[at], wanted[j]) << "token " << token << " choice " << j;
          ASSERT_NEAR(weights[at], p[static_cast<std::size_t>(wanted[j])] / (renormalize ? total : 1), 1e-6);
        }
      }
    }
  }
}

TEST(TopKRouter, BearsLargeLogitsAndWhatIsNoNumber) {
  HostCompute compute;
  TopKRouter router(compute, {.num_experts = 4, .topk = 2});
  std::vector<float> logits{1000, -1000, 999, 0, NAN, 1, NAN, NAN};
  const auto routing = router.forward(Tensor(logits.data(), {2, 4}));
  EXPECT_EQ(routing.topk_indices, (std::vector<std::int32_t>{0, 2, 1, 0}));
  EXPECT_NEAR(FloatsOf(routing.topk_weights)[0], 1 / (1 + std::exp(-1.0)), 1e-6);
}

// d/dlogits of (sum of some factors times weights) + the load-balancing loss. Choices do not change for small steps.
TEST(TopKRouter, GradientIsThatOfDifferences) {
  HostCompute compute;
  for (const std::size_t k : {1, 2, 4}) {
    for (const bool renormalize : {false, true}) {
      SCOPED_TRACE(fmt::format("k {} renormalize {}", k, renormalize));
      TopKRouter router(compute,
                        {.num_experts = kExperts, .topk = k, .renormalize = renormalize, .aux_loss_coeff = 0.5F});
      // Each row has another order of numbers that are well apart.
      std::vector<float> logits(kTokens * kExperts);
      for (std::size_t i = 0; i < logits.size(); ++i) {
        logits[i] = 0.3F * static_cast<float>((i * 5 + i / kExperts) % kExperts);
      }
      auto factors = RandomFloats(kTokens * k, 2);
      const Tensor input(logits.data(), {kTokens, kExperts});
      const auto routing = router.forward(input);
      const auto load = load_statistics(routing);
      const auto value = [&] {
        const auto now = router.forward(input);
        EXPECT_EQ(now.topk_indices, routing.topk_indices);
        const auto weights = FloatsOf(now.topk_weights);
        return std::inner_product(factors.begin(), factors.end(), weights.begin(), 0.0) + router.aux_loss(now, load);
      };
      std::vector<float> grad(logits.size());
      router.backward(routing, load, Tensor(factors.data(), {kTokens, k}), Tensor(grad.data(), {kTokens, kExperts}));
      for (std::size_t i = 0; i < logits.size(); ++i) {
        constexpr float kStep = 0.01F;
        const float before = logits[i];
        logits[i] = before + kStep;
        const double above = value();
        logits[i] = before - kStep;
        const double below = value();
        logits[i] = before;
        ASSERT_NEAR(grad[i], (above - below) / (2 * kStep), 2e-4) << "at " << i;
      }
    }
  }
}

TEST(TopKRouter, AuxLossIsTheCoefficientWhereLoadIsEven) {
  HostCompute compute;
  TopKRouter router(compute, {.num_experts = 3, .topk = 1, .aux_loss_coeff = 0.01F});
  std::vector<float> even{2, 1, 0, 0, 2, 1, 1, 0, 2}, all_to_one{9, 0, 0, 9, 0, 0, 9, 0, 0};
  const auto balanced = router.forward(Tensor(even.data(), {3, 3}));
  EXPECT_NEAR(router.aux_loss(balanced, load_statistics(balanced)), 0.01, 1e-7);
  const auto unbalanced = router.forward(Tensor(all_to_one.data(), {3, 3}));
  EXPECT_NEAR(router.aux_loss(unbalanced, load_statistics(unbalanced)), 0.03, 1e-4);
  EXPECT_EQ(load_statistics(balanced).max_over_mean(), 1);
  EXPECT_EQ(load_statistics(unbalanced).max_over_mean(), 3);
}

TEST(TopKRouter, TakesNoTokens) {
  HostCompute compute;
  TopKRouter router(compute, {.num_experts = 3, .topk = 2, .aux_loss_coeff = 1});
  std::vector<float> nothing(1);
  const auto routing = router.forward(Tensor(nothing.data(), {0, 3}));
  const auto load = load_statistics(routing);
  EXPECT_EQ(load.max_over_mean(), 1);
  EXPECT_EQ(router.aux_loss(routing, load), 0);
  router.backward(routing, load, Tensor(nothing.data(), {0, 2}), Tensor(nothing.data(), {0, 3}));
}

TEST(LoadStatistics, AreAddedOverAGroup) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    LoadStatistics load{{self.rank(), 1, 0}};
    load.all_reduce(group);
    EXPECT_EQ(load.tokens_per_expert, (std::vector<std::int64_t>{3, 3, 0}));
    EXPECT_EQ(load.max_over_mean(), 1.5);
    self.Meet();
  });
}

TEST(TopKRouter, NamesWhatDoesNotFit) {
  HostCompute compute;
  EXPECT_TRUE(Throws([&] { TopKRouter(compute, {.num_experts = 4, .topk = 5}); }, tuttiInvalidArgument,
                     {"topk is 5", "num_experts is 4"}));
  EXPECT_TRUE(Throws([&] { TopKRouter(compute, {.num_experts = 4, .topk = 0}); }, tuttiInvalidArgument, {"topk is 0"}));
  TopKRouter router(compute, {.num_experts = 4});
  std::vector<float> logits(10);
  EXPECT_TRUE(Throws(
      [&] {
        router.forward(Tensor(logits.data(), {2, 5}));
      },
      tuttiInvalidArgument, {"last dimension is 5", "num_experts is 4"}));
}

}  // namespace
}  // namespace tutti::parallel
